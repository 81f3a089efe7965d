"""The ledger of predictions: what a plan predicted beside what came of it."""

from __future__ import annotations

import pytest

from astra_chat.agents.plan_predictions import predictions, score
from astra_chat.agents.prompt import ChatContext, turn_prompt
from astra_chat.agents.run_state import state_of
from astra_chat.agents.turns import Approval, Direction, Kernel, Plan, Turn
from astra_chat.tools.task.folder import Task
from tests.chat_samples import (
    BROKEN,
    VECTOR,
    asking_turns,
    baseline_turns,
    build,
    coded,
    evaluation,
    plan,
    timed,
)

METRIC = plan().metric
KERNEL = Kernel(words="", source=VECTOR)
BUILT = Turn("executor", build(VECTOR))


def one(
    source: str, ratio: float, requests: float, predicted: float = 1.5, moves: Direction = "down"
) -> list[Turn]:
    """A round: its prediction, what came, and the metric that the kernel's profile shows."""
    card = plan(predicted_ratio=predicted).model_copy(update={"moves": moves})
    outcome = timed(ratio, "accepted" if ratio > 1 else "slower", requests)
    return [Turn("planner", card), *coded(source), Turn("executor", evaluation(source, outcome))]


def test_a_prediction_stands_beside_what_came() -> None:
    found = predictions(state_of([*baseline_turns(), *one(VECTOR, 1.5, 25.0)]).rounds)[0]
    assert (found.before, found.after, found.moved) == (100.0, 25.0, "down")
    assert found.actual_ratio == pytest.approx(1.5) and found.direction_correct
    assert found.log_error == pytest.approx(0.0)


def test_ratios_are_over_the_plans_own_parent() -> None:
    turns = [*baseline_turns(), *one(VECTOR, 2.0, 25.0), *one(VECTOR + "//", 3.0, 25.0)]
    second = predictions(state_of(turns).rounds)[1]
    assert second.actual_ratio == pytest.approx(1.5) and second.moved == "stays"


def test_what_does_not_build_produces_no_correct_kernel() -> None:
    turns = [*baseline_turns(), Turn("planner", plan()), *coded(BROKEN)]
    found = predictions(state_of(turns).rounds)
    assert (
        found[0].actual_ratio is None
        and found[0].log_error is None
        and not found[0].direction_correct
    )
    assert score(found).correct_kernels == 0 and "0 of 1 plans" in score(found).text


def test_a_kernel_that_was_not_run_says_nothing_of_its_plan() -> None:
    """It waits for the human's decision, or the human did not want it run."""
    waits = [*asking_turns(), Turn("planner", plan()), Turn("coder", KERNEL), BUILT]
    assert predictions(state_of(waits).rounds) == []
    no = Approval(candidate=KERNEL.candidate, decision="reject", reason="not this one")
    assert predictions(state_of([*waits, Turn("human", no)]).rounds) == []
    broken = Kernel(words="", source=BROKEN)
    first = [*asking_turns(), Turn("planner", plan()), Turn("coder", broken)]
    mended = [*first, Turn("executor", build(BROKEN)), Turn("fixer", KERNEL), BUILT]
    assert predictions(state_of([*mended, Turn("human", no)]).rounds) == []


def test_the_score_counts_ways_and_metrics() -> None:
    turns = [
        *baseline_turns(),
        *one(VECTOR, 2.0, 25.0, predicted=1.0 + 1e-3),
        *one(VECTOR + "//", 1.0, 50.0, predicted=1.0, moves="up"),
    ]
    found = score(predictions(state_of(turns).rounds))
    assert (found.plans, found.correct_kernels, found.direction_correct) == (2, 2, 0)
    assert (found.metrics_named, found.metrics_correct) == (2, 2)
    assert found.median_factor == pytest.approx(2.0, rel=0.01)


def test_a_direction_is_right_by_the_resolution_that_ties_are_told_by() -> None:
    for predicted, ratio, right in (
        (1.02, 1.03, True),
        (1.02, 1.06, False),
        (1.06, 1.03, False),
        (1.06, 1.5, True),
        (0.9, 1.0, False),
    ):
        turns = [*baseline_turns(), *one(VECTOR, ratio, 25.0, predicted=predicted)]
        assert predictions(state_of(turns).rounds)[0].direction_correct is right


def test_an_untold_round_is_not_judged() -> None:
    assert predictions(state_of([*baseline_turns(), Turn("planner", plan())]).rounds) == []
    assert score([]).text == "no predictions to compare yet"


def test_the_planner_is_told(task: Task) -> None:
    context = ChatContext(task, task.baseline, "sglang", "virtual")
    turns = [*baseline_turns(), *one(VECTOR, 1.9, 25.0)]
    prompt = turn_prompt("planner", context, state_of(turns))
    assert "Predictions of plans" in prompt and "predicted 1.50x, actual 1.90x" in prompt
    assert f"{METRIC} 100 to 25 (predicted: down)" in prompt


def test_a_metric_is_read_on_the_case_that_the_plan_names() -> None:
    turns = [*baseline_turns(), *one(VECTOR, 1.9, 25.0)]
    planned = turns[-4].payload
    assert isinstance(planned, Plan)
    for case, after in (("rows=4 d=64 float32", 25.0), ("9x9 float32", None)):
        turns[-4] = Turn("planner", planned.model_copy(update={"case": case}))
        (found,) = predictions(state_of(turns).rounds)
        assert (found.case, found.after) == (case, after)
