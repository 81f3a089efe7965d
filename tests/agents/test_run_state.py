"""Facts derived from a thread: the same for the same turns, whatever came between."""

from __future__ import annotations

import pytest

from astra_chat.agents import run_state, search_state
from astra_chat.agents.run_state import Position, Turn
from astra_chat.agents.turns import Approval, Kernel, Pass, TestSuite
from astra_chat.tools.types import candidate_id
from tests.chat_samples import (
    BROKEN,
    KERNELS,
    SCALAR,
    VECTOR,
    WRONG,
    WRONG_OUTCOME,
    analysis,
    asking_turns,
    baseline_turns,
    build,
    evaluation,
    plan,
    suite,
    timed,
)


def kernel(speaker: str, source: str) -> Turn:
    return Turn(speaker, Kernel(words="", source=source))  # type: ignore[arg-type]


def two_rounds() -> list[Turn]:
    """Round 1: broken, repaired but wrong, repaired to a tie. Round 2: faster."""
    return [
        *baseline_turns(),
        Turn("planner", plan("first")),
        kernel("coder", BROKEN),
        Turn("executor", build(BROKEN)),
        kernel("fixer", WRONG),
        Turn("executor", build(WRONG)),
        Turn("executor", evaluation(WRONG, WRONG_OUTCOME)),
        kernel("fixer", KERNELS["scalar.cu"]),
        Turn("executor", build(KERNELS["scalar.cu"])),
        Turn("executor", evaluation(KERNELS["scalar.cu"], timed(1.0, "tie"))),
        Turn("profiler", analysis("unsure")),
        Turn("planner", plan("second")),
        kernel("coder", VECTOR),
        Turn("executor", build(VECTOR)),
        Turn("executor", evaluation(VECTOR, timed(1.9))),
    ]


def test_rounds_hold_their_candidates_and_findings() -> None:
    first, second = run_state.rounds(two_rounds())
    assert [a.speaker for a in first.attempts] == ["coder", "fixer", "fixer"]
    assert first.attempts[0].build is not None and run_state.failed(first.attempts[0].build)
    assert first.attempts[0].evaluation is None
    assert first.attempts[1].evaluation is not None
    assert first.attempts[1].evaluation.outcome == WRONG_OUTCOME
    assert second.plan.title == "second" and len(second.attempts) == 1


def test_a_thread_without_plans_has_no_rounds() -> None:
    assert run_state.rounds(baseline_turns()) == []


def test_repairs_count_the_fixers_kernels_of_this_round_only() -> None:
    turns = two_rounds()
    assert run_state.repairs(turns[:9]) == 1
    assert run_state.repairs(turns[:11]) == 2
    assert run_state.repairs(turns) == 0
    passed = [*turns[:6], Turn("fixer", Pass(words="no"))]
    assert run_state.repairs(passed) == 0, "a pass is no kernel"


def test_best_is_the_highest_accepted_ratio() -> None:
    turns = two_rounds()
    assert run_state.best(turns[:-1]) is None, "a tie is not accepted"
    found = run_state.best(turns)
    assert found is not None and found[0].candidate == Kernel(words="", source=VECTOR).candidate
    slower = [*turns, Turn("executor", evaluation(SCALAR, timed(1.5)))]
    assert run_state.best(slower) == found
    refused = [*turns, Turn("executor", evaluation(SCALAR, timed(9.0, "slower")))]
    assert run_state.best(refused) == found, "a high ratio without the verdict does not count"


def test_the_baseline_is_never_the_best() -> None:
    turns = baseline_turns(timed(1.4, "accepted"))
    assert run_state.best(turns) is None
    assert search_state.parent(turns) == run_state.baseline(turns)


def test_extra_cases_are_collected_once_each() -> None:
    turns = [Turn("tester", suite((7, 12), (9, 8))), Turn("tester", suite((7, 12)))]
    assert [case.dims for case in run_state.extra_cases(turns)] == [
        {"rows": 7, "d": 12},
        {"rows": 9, "d": 8},
    ]


@pytest.mark.parametrize(
    ("role", "turns", "place"),
    [
        ("tester", 1, (0, 1)),
        ("planner", 3, (1, 1)),
        ("coder", 4, (1, 1)),
        ("fixer", 6, (1, 1)),
        ("fixer", 9, (1, 2)),
        ("profiler", 12, (1, 1)),
        ("selector", 13, (1, 1)),
        ("tester", 13, (1, 2)),
        ("planner", 13, (2, 1)),
        ("coder", 14, (2, 1)),
    ],
)
def test_positions(role: str, turns: int, place: tuple[int, int]) -> None:
    assert run_state.position(role, two_rounds()[:turns]) == Position(
        round=place[0], attempt=place[1]
    )


def test_source_of_a_candidate() -> None:
    name = Kernel(words="", source=VECTOR).candidate
    assert run_state.source_of(two_rounds(), name) == VECTOR
    assert run_state.source_of(two_rounds(), "0" * 12) is None


def test_turns_of_filters_by_class() -> None:
    assert len(run_state.turns_of(baseline_turns(), TestSuite)) == 1


def decided(decision: str) -> Turn:
    said = {"candidate": candidate_id(VECTOR), "decision": decision, "reason": "too bold"}
    return Turn("human", Approval.model_validate(said))


def judged_while_asked(*after: Turn) -> list[Turn]:
    """A first candidate, approved to be run, found faster."""
    return [
        *asking_turns(),
        Turn("planner", plan("first")),
        kernel("coder", VECTOR),
        Turn("executor", build(VECTOR)),
        decided("approve"),
        Turn("executor", evaluation(VECTOR, timed(1.9))),
        *after,
    ]


@pytest.mark.parametrize(
    ("after", "accepted"),
    [
        ([], False),
        ([decided("approve")], True),
        ([decided("approve_all")], True),
        ([decided("reject")], False),
        ([kernel("human", SCALAR)], False),
    ],
)
def test_only_what_the_human_approved_is_the_best(after: list[Turn], accepted: bool) -> None:
    assert (run_state.best(judged_while_asked(*after)) is not None) == accepted
    if after:
        late = judged_while_asked(*after, Turn("profiler", analysis()))
        assert (run_state.best(late) is not None) == accepted, "and stays so"


def test_a_rejection_stands_with_its_attempt() -> None:
    turns = [*judged_while_asked()[:-2], decided("reject")]
    assert run_state.rounds(turns)[0].attempts[0].rejected == "too bold"
