"""What the next plan goes on from, read off a thread, and when a search has done enough."""

from __future__ import annotations

import pytest

from astra_chat.agents import search_state
from astra_chat.agents.run_state import Limits, Turn
from astra_chat.agents.strategy import parse_strategy
from astra_chat.agents.turn_order import Next, next_speakers
from astra_chat.agents.turns import Kernel
from astra_chat.tools.types import Timed, candidate_id
from tests.chat_samples import (
    KERNELS,
    SCALAR,
    VECTOR,
    analysis,
    baseline_turns,
    build,
    commission,
    evaluation,
    plan,
    timed,
)

OTHER = VECTOR + "// another\n"


def chat(words: str, *rounds: tuple[str, float]) -> list[Turn]:
    """Rounds of one kernel each, with its ratio, by a strategy."""
    opened = commission().model_copy(update={"strategy": parse_strategy(words)})
    turns = [Turn("user", opened), *baseline_turns()[1:]]
    for source, ratio in rounds:
        verdict = "accepted" if ratio > 1 else "slower"
        turns += [
            Turn("planner", plan()),
            Turn("coder", Kernel(words="", source=source)),
            Turn("executor", build(source)),
            Turn("executor", evaluation(source, timed(ratio, verdict))),
            Turn("profiler", analysis()),
        ]
    return turns


@pytest.mark.parametrize(("words", "parent"), [("best", VECTOR), ("paper", OTHER)])
def test_the_strategy_of_the_commission_decides(words: str, parent: str) -> None:
    turns = chat(words, (VECTOR, 1.9), (OTHER, 0.7))
    found = search_state.parent(turns)
    assert found is not None and found.candidate == candidate_id(parent)


def test_while_a_plan_is_written_its_parent_stays() -> None:
    turns = chat("beam:2", (VECTOR, 1.9), (OTHER, 1.2))
    before = search_state.parent(turns)
    writing = search_state.parent([*turns, Turn("planner", plan())])
    assert before == writing == search_state.parent_of(turns, 3)
    after = search_state.parent(
        chat("beam:2", (VECTOR, 1.9), (OTHER, 1.2), (KERNELS["scalar.cu"], 0.5))
    )
    assert after != before


def test_before_the_baseline_there_is_no_parent() -> None:
    assert search_state.parent([Turn("user", commission())]) is None
    assert search_state.made_of([Turn("user", commission())], "coder") == ""


def test_what_a_kernel_is_made_of() -> None:
    """The coder changes the plan's parent, the fixer the last kernel, a human what was shown."""
    turns = [*chat("best", (VECTOR, 1.9), (OTHER, 0.7)), Turn("planner", plan())]
    assert (
        search_state.made_of(turns, "coder")
        == search_state.made_of(turns, "single")
        == candidate_id(VECTOR)
    )
    again = KERNELS["scalar.cu"]
    turns += [Turn("coder", Kernel(words="", source=again)), Turn("executor", build(again))]
    assert (
        search_state.made_of(turns, "fixer")
        == search_state.made_of(turns, "human")
        == candidate_id(again)
    )
    assert search_state.made_of(turns, "coder") == candidate_id(VECTOR), (
        "a second one of the same plan"
    )
    assert search_state.made_of(
        [*baseline_turns(), Turn("planner", plan())], "coder"
    ) == candidate_id(SCALAR)


def test_rounds_without_gain() -> None:
    assert search_state.without_gain(chat("best", (VECTOR, 1.9), (OTHER, 0.7))) == 1
    assert search_state.without_gain(chat("best", (SCALAR + "//", 0.9), (OTHER, 0.7))) == 2
    assert search_state.without_gain(chat("best", (VECTOR, 1.2), (OTHER, 1.9))) == 0


def test_patience_and_the_limit_end_the_chat() -> None:
    turns = chat("best", (VECTOR, 1.9), (OTHER, 0.7))
    confirmed = evaluation(VECTOR, timed(1.9)).model_copy(update={"confirms": True})
    ended = [*turns, Turn("executor", confirmed)]
    assert next_speakers(ended, Limits(patience=1)) == Next((), "no_gain")
    assert next_speakers(ended, Limits(patience=2)) == Next(("planner",))
    outcome = confirmed.outcome
    assert isinstance(outcome, Timed)
    share = search_state.percent_of_limit(outcome)
    assert next_speakers(ended, Limits(stop_at_percent=share)) == Next((), "near_limit")
    assert next_speakers(ended, Limits(stop_at_percent=share + 1)) == Next(("planner",))
