"""Facts derived from a thread: the same for the same turns, whatever came between."""

from __future__ import annotations

import pytest

from astra_chat.agents.limits import Limits
from astra_chat.agents.rounds import failed
from astra_chat.agents.run_state import RunState, state_of, states
from astra_chat.agents.strategy import parse_strategy
from astra_chat.agents.turn_order import Ask, Stop, next_step
from astra_chat.agents.turns import Approval, Kernel, Pass, Position, Turn
from astra_chat.tools.mutation.scores import CaseScore, CaseScores
from astra_chat.tools.timing.intervals import percent_of_limit
from astra_chat.tools.types import Timed, candidate_id
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
    check_record,
    coded,
    evaluation,
    plan,
    run_request,
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
    first, second = state_of(two_rounds()).rounds
    assert [a.speaker for a in first.attempts] == ["coder", "fixer", "fixer"]
    assert first.attempts[0].build is not None and failed(first.attempts[0].build)
    assert first.attempts[0].evaluation is None
    assert first.attempts[1].evaluation is not None
    assert first.attempts[1].evaluation.outcome == WRONG_OUTCOME
    assert second.plan.title == "second" and len(second.attempts) == 1


def test_a_thread_without_plans_has_no_rounds() -> None:
    assert state_of(baseline_turns()).rounds == ()


def repairs(turns: list[Turn]) -> int:
    under_way = state_of(turns).round
    assert under_way is not None
    return under_way.repairs


def test_repairs_count_the_fixers_kernels_of_this_round_only() -> None:
    turns = two_rounds()
    assert repairs(turns[:9]) == 1
    assert repairs(turns[:11]) == 2
    assert repairs(turns) == 0
    passed = [*turns[:6], Turn("fixer", Pass(words="no"))]
    assert repairs(passed) == 0, "a pass is no kernel"


def test_best_is_the_highest_accepted_ratio() -> None:
    turns = two_rounds()
    assert state_of(turns[:-1]).best is None, "a tie is not accepted"
    found = state_of(turns).best
    assert found is not None and found[0].candidate == Kernel(words="", source=VECTOR).candidate
    slower = [*turns, Turn("executor", evaluation(SCALAR, timed(1.5)))]
    assert state_of(slower).best == found
    refused = [*turns, Turn("executor", evaluation(SCALAR, timed(9.0, "slower")))]
    assert state_of(refused).best == found, "a high ratio without the verdict does not count"


def test_the_baseline_is_never_the_best() -> None:
    turns = baseline_turns(timed(1.4, "accepted"))
    assert state_of(turns).best is None
    assert state_of(turns).parent == state_of(turns).baseline


def test_extra_cases_are_collected_once_each() -> None:
    turns = [Turn("tester", suite((7, 12), (9, 8))), Turn("tester", suite((7, 12)))]
    assert [case.dims for case in state_of(turns).extra_cases] == [
        {"rows": 7, "d": 12},
        {"rows": 9, "d": 8},
    ]


def test_a_drawn_case_that_met_a_fault_is_one_of_every_later_check() -> None:
    """That of the winner's confirmation, too: its own draw may have spared the best candidate."""
    drawn = WRONG_OUTCOME.case.model_copy(update={"dims": {"rows": 3, "d": 252}, "seed": 7})
    check = check_record()
    own = evaluation(WRONG, WRONG_OUTCOME).model_copy(update={"check": check})
    met = own.model_copy(update={"check": check.model_copy(update={"failed": drawn})})
    begun = [*baseline_turns(), Turn("planner", plan()), kernel("coder", WRONG)]
    state = state_of([*begun, Turn("executor", met), Turn("tester", suite((7, 12)))])
    assert state.failed_cases == (drawn,)
    assert [case.dims["d"] for case in state.cases] == [12, 252]
    assert state_of([*begun, Turn("executor", own)]).failed_cases == (), "all are checked on it"
    turns = [*two_rounds(), Turn("executor", met.model_copy(update={"confirms": True}))]
    assert state_of(turns).failed_cases == (drawn,)


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
    assert state_of(two_rounds()[:turns]).position(role) == Position(
        round=place[0], attempt=place[1]
    )


def test_source_of_a_candidate() -> None:
    name = Kernel(words="", source=VECTOR).candidate
    assert state_of(two_rounds()).sources[name] == VECTOR
    assert "0" * 12 not in state_of(two_rounds()).sources


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
    assert (state_of(judged_while_asked(*after)).best is not None) == accepted
    if after:
        late = judged_while_asked(*after, Turn("profiler", analysis()))
        assert (state_of(late).best is not None) == accepted, "and stays so"


def test_a_rejection_stands_with_its_attempt() -> None:
    turns = [*judged_while_asked()[:-2], decided("reject")]
    assert state_of(turns).rounds[0].attempts[0].rejected == "too bold"


OTHER = VECTOR + "// another\n"


def chat(words: str, *rounds: tuple[str, float]) -> list[Turn]:
    """Rounds of one kernel each, with its ratio, by a strategy."""
    opened = run_request().model_copy(update={"strategy": parse_strategy(words)})
    turns = [Turn("user", opened), *baseline_turns()[1:]]
    for source, ratio in rounds:
        verdict = "accepted" if ratio > 1 else "slower"
        turns += [
            Turn("planner", plan()),
            *coded(source),
            Turn("executor", evaluation(source, timed(ratio, verdict))),
            Turn("profiler", analysis()),
        ]
    return turns


@pytest.mark.parametrize(("words", "parent"), [("best", VECTOR), ("paper", OTHER)])
def test_the_strategy_of_the_request_decides(words: str, parent: str) -> None:
    turns = chat(words, (VECTOR, 1.9), (OTHER, 0.7))
    found = state_of(turns).parent
    assert found is not None and found.candidate == candidate_id(parent)


@pytest.mark.parametrize(("ratio", "leads"), [(1.08, True), (0.97, False)])
def test_a_search_goes_by_the_estimate_also_inside_its_interval(ratio: float, leads: bool) -> None:
    """Only the verdict's word is a tie, and no winner comes of it."""
    turns = chat("best", (VECTOR, ratio))
    tied = Turn("executor", evaluation(VECTOR, timed(ratio, "tie")))
    found = state_of([tied if turn is turns[-2] else turn for turn in turns])
    assert found.best is None and found.parent is not None
    assert (found.parent.candidate == candidate_id(VECTOR)) is leads


def test_while_a_plan_is_written_its_parent_stays() -> None:
    turns = chat("beam:2", (VECTOR, 1.9), (OTHER, 1.2))
    before = state_of(turns).parent
    writing = state_of([*turns, Turn("planner", plan())])
    assert writing.round is not None
    assert before == writing.parent == writing.round.parent
    after = state_of(chat("beam:2", (VECTOR, 1.9), (OTHER, 1.2), (KERNELS["scalar.cu"], 0.5)))
    assert after.parent != before


def test_before_the_baseline_there_is_no_parent() -> None:
    opened = state_of([Turn("user", run_request())])
    assert opened.parent is None and opened.parent_of("coder") == ""


def test_what_a_kernel_is_derived_from() -> None:
    """The coder changes the plan's parent, the fixer the last kernel, a human what was shown."""
    turns = [*chat("best", (VECTOR, 1.9), (OTHER, 0.7)), Turn("planner", plan())]
    state = state_of(turns)
    assert state.parent_of("coder") == state.parent_of("single") == candidate_id(VECTOR)
    again = KERNELS["scalar.cu"]
    turns += coded(again)
    state = state_of(turns)
    assert state.parent_of("fixer") == state.parent_of("human") == candidate_id(again)
    assert state.parent_of("coder") == candidate_id(VECTOR), "a second one of the same plan"
    first = state_of([*baseline_turns(), Turn("planner", plan())])
    assert first.parent_of("coder") == candidate_id(SCALAR)


def test_a_plan_may_name_any_correct_candidate_as_its_parent() -> None:
    turns = chat("best", (VECTOR, 1.9), (OTHER, 0.7))
    named = plan().model_copy(update={"parent": candidate_id(OTHER)})
    state = state_of([*turns, Turn("planner", named)])
    assert state.parent_of("coder") == candidate_id(OTHER)
    assert state.round is not None and state.round.parent_index == 2
    unknown = plan().model_copy(update={"parent": "0" * 12})
    assert state_of([*turns, Turn("planner", unknown)]).parent_of("coder") == candidate_id(VECTOR)


def test_evaluations_are_counted_with_the_baseline_and_confirmations() -> None:
    turns = chat("best", (VECTOR, 1.9), (OTHER, 0.7))
    confirmed = evaluation(VECTOR, timed(1.9)).model_copy(update={"confirms": True})
    assert state_of(turns).evaluations == 3
    assert state_of([*turns, Turn("executor", confirmed)]).evaluations == 4


def test_patience_and_the_limit_end_the_chat() -> None:
    turns = chat("best", (VECTOR, 1.9), (OTHER, 0.7))
    confirmed = evaluation(VECTOR, timed(1.9)).model_copy(update={"confirms": True})
    ended = [*turns, Turn("executor", confirmed)]
    assert next_step(state_of(ended, Limits(patience=1))) == Stop("no_gain")
    assert next_step(state_of(ended, Limits(patience=2))) == Ask("planner", "planner")
    outcome = confirmed.outcome
    assert isinstance(outcome, Timed)
    share = percent_of_limit(outcome)
    assert next_step(state_of(ended, Limits(stop_at_percent=share))) == Stop("near_limit")
    assert next_step(state_of(ended, Limits(stop_at_percent=share + 1))) == Ask(
        "planner", "planner"
    )


def test_a_later_finding_does_not_rewrite_what_an_earlier_plan_changed() -> None:
    """A winner that does not hold on fresh seeds was all the same what the next plan changed."""
    turns = [*chat("best", (VECTOR, 1.9), (OTHER, 0.7))]
    changed = state_of(turns).rounds[1].parent
    failed = evaluation(VECTOR, WRONG_OUTCOME).model_copy(update={"confirms": True})
    later = state_of([*turns, Turn("executor", failed)])
    assert changed is not None and changed.candidate == candidate_id(VECTOR)
    assert later.rounds[1].parent == changed and later.best is None
    assert later.parent == later.baseline, "the next plan starts from what counts now"


def test_one_more_turn_folds_to_the_same_state_as_all_turns() -> None:
    *_, last = states(two_rounds(), Limits(rounds=3))
    assert last.limits.rounds == 3 and last.best == state_of(two_rounds()).best
    before = state_of(two_rounds()[:-1])
    after = before.after(two_rounds()[-1])
    assert before.best is None and after.best is not None, "a state never changes"
    assert RunState().last is None


KILLER, IDLE = (case.case() for case in suite((7, 12), (9, 4)).cases)
SCORES = CaseScores(
    asked=4,
    mutants=("a", "b"),
    own=("a",),
    cases=(CaseScore(case=KILLER, kills=("b",)), CaseScore(case=IDLE)),
)


def test_cases_that_notice_no_seeded_bug_are_not_kept() -> None:
    opened = [Turn("user", run_request()), Turn("tester", suite((7, 12), (9, 4)))]
    assert state_of([*opened, Turn("executor", SCORES)]).extra_cases == (KILLER,)
    nothing_built = SCORES.model_copy(update={"mutants": (), "own": ()})
    assert state_of([*opened, Turn("executor", nothing_built)]).extra_cases == (KILLER, IDLE)
