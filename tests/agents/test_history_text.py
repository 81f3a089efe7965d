"""Earlier rounds as a prompt shows them."""

from __future__ import annotations

from astra_chat.agents.plan_predictions import predictions
from astra_chat.agents.prompt import prediction_line, round_lines
from astra_chat.agents.run_state import state_of
from astra_chat.agents.turns import Kernel, Turn
from astra_chat.tools.types import candidate_id
from tests.agents.test_standing import rounds
from tests.chat_samples import BROKEN, WRONG, WRONG_OUTCOME, build, coded, evaluation, plan, timed


def test_a_round_names_its_candidates_and_how_they_stand() -> None:
    first, second = round_lines(state_of(rounds(timed(1.9), timed(1.5))).rounds)
    assert first.startswith(f"round 1, {plan().title}: {candidate_id('// 0')} 1.90x (faster than")
    assert candidate_id("// 1") in second and "slower than its parent" in second


def test_candidates_that_failed_are_told_by_their_outcome() -> None:
    turns = [
        *rounds(timed(1.9)),
        Turn("planner", plan("broken")),
        *coded(BROKEN),
        Turn("fixer", Kernel(words="", source=WRONG)),
        Turn("executor", build(WRONG)),
        Turn("executor", evaluation(WRONG, WRONG_OUTCOME)),
        Turn("planner", plan("none")),
    ]
    _, failed, empty = round_lines(state_of(turns).rounds)
    assert failed == "round 2, broken: coder: build_failed; fixer: wrong"
    assert empty == "round 3, none: no candidate"


def test_a_prediction_names_its_case() -> None:
    turns = rounds(timed(1.5, requests=25.0))
    (one,) = predictions(state_of(turns).rounds)
    line = prediction_line(one)
    assert "actual 1.50x" in line and line.endswith("100 to 25")
    named = prediction_line(one.model_copy(update={"case": "4x64 float32", "moves": "down"}))
    assert named.endswith("100 to 25 on 4x64 float32 (predicted: down)")
