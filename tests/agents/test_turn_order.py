"""The turn order, row by row, and what holds for every chat that follows it."""

from __future__ import annotations

import random
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_chat.agents.approval_gates import to_confirm
from astra_chat.agents.run_state import (
    Limits,
    Turn,
    best,
    extra_cases,
    failed,
    repairs,
    rounds_begun,
)
from astra_chat.agents.strategy import parse_strategy
from astra_chat.agents.turn_order import Next, acts_as, next_speakers
from astra_chat.agents.turns import Approval, Kernel, Pass, Payload, Plan, Speaker
from astra_chat.tools.mutation.scores import CaseScore, CaseScores
from astra_chat.tools.types import (
    BuildReport,
    Crashed,
    Outcome,
    TimedOut,
    Unsupported,
    candidate_id,
)
from tests.chat_samples import (
    BROKEN,
    CASE,
    SCALAR,
    VECTOR,
    WRONG_OUTCOME,
    analysis,
    asking_turns,
    baseline_turns,
    build,
    commission,
    evaluation,
    plan,
    suite,
    timed,
)

LIMITS = Limits(rounds=2, repairs=1)
FAULTS: list[Outcome] = [
    WRONG_OUTCOME,
    Crashed(case=CASE, message="signal 11"),
    TimedOut(step="check", limit_s=60),
    Unsupported(what="wgmma", kernel="k", opcode="wgmma.mma_async", line=7),
]


def chat(*turns: tuple[Speaker, Payload]) -> list[Turn]:
    """A chat that goes on after the baseline."""
    return [*baseline_turns(), *(Turn(speaker, payload) for speaker, payload in turns)]


KERNEL = Kernel(words="", source=VECTOR)
PLANNED: list[tuple[Speaker, Payload]] = [("planner", plan()), ("coder", KERNEL)]
JUDGED: tuple[Speaker, Payload] = ("executor", evaluation(VECTOR, timed(1.5)))
CONFIRMED: tuple[Speaker, Payload] = (
    "executor",
    evaluation(VECTOR, timed(1.4)).model_copy(update={"confirms": True}),
)
FAILED: tuple[Speaker, Payload] = ("executor", build(BROKEN))


@pytest.mark.parametrize(
    ("thread", "expected"),
    [
        ([Turn("user", commission())], ("tester",)),
        (baseline_turns()[:2], ("executor",)),
        ([*baseline_turns()[:1], Turn("tester", Pass(words=""))], ("executor",)),
        (baseline_turns(), ("planner",)),
        (chat(PLANNED[0]), ("coder",)),
        (chat(*PLANNED), ("executor",)),
        (chat(*PLANNED, ("executor", build(VECTOR))), ("executor",)),
        (chat(*PLANNED, FAILED), ("fixer",)),
        (chat(*PLANNED, FAILED, ("fixer", KERNEL)), ("executor",)),
        (chat(*PLANNED, FAILED, ("fixer", KERNEL), FAILED), ("planner",)),
        (chat(*PLANNED, FAILED, ("fixer", Pass(words=""))), ("planner",)),
        (chat(PLANNED[0], ("coder", Pass(words=""))), ("planner",)),
        (chat(*PLANNED, JUDGED), ("profiler",)),
        (chat(*PLANNED, JUDGED, ("profiler", analysis("plan"))), ("planner",)),
        (chat(*PLANNED, JUDGED, ("profiler", analysis("unsure"))), ("planner", "tester")),
        (
            chat(*PLANNED, JUDGED, ("profiler", analysis("unsure")), ("tester", suite((9, 4)))),
            ("planner",),
        ),
        (chat(*PLANNED, JUDGED, ("profiler", Pass(words=""))), ("planner",)),
        (chat(*PLANNED, ("executor", Pass(words=""))), ("planner",)),
    ],
)
def test_the_table(thread: list[Turn], expected: tuple[Speaker, ...]) -> None:
    assert next_speakers(thread, LIMITS) == Next(expected)


def asking(*turns: tuple[Speaker, Payload]) -> list[Turn]:
    """A chat whose user wants to be asked, up to a build and further."""
    more = [*PLANNED, ("executor", build(VECTOR)), *turns]
    return [*asking_turns(), *(Turn(speaker, payload) for speaker, payload in more)]


def decides(word: Literal["approve", "approve_all", "reject"]) -> tuple[Speaker, Payload]:
    return "human", Approval(candidate=KERNEL.candidate, decision=word)


EDIT: tuple[Speaker, Payload] = ("human", Kernel(words="", source=SCALAR))


@pytest.mark.parametrize(
    ("thread", "expected"),
    [
        (asking_turns(), ("planner",)),
        (asking(), ("human",)),
        (asking(decides("approve")), ("executor",)),
        (asking(decides("approve_all")), ("executor",)),
        (asking(decides("reject")), ("planner",)),
        (asking(EDIT), ("executor",)),
        (asking(EDIT, ("executor", build(SCALAR))), ("executor",)),
        (asking(EDIT, FAILED), ("fixer",)),
        (asking(EDIT, FAILED, ("fixer", KERNEL), ("executor", build(VECTOR))), ("human",)),
        (asking(decides("approve"), JUDGED), ("executor",)),
        (asking(decides("approve"), JUDGED, CONFIRMED), ("human",)),
        (asking(decides("approve"), JUDGED, CONFIRMED, decides("approve")), ("profiler",)),
        (asking(decides("approve"), JUDGED, CONFIRMED, decides("reject")), ("planner",)),
        (asking(decides("approve"), JUDGED, CONFIRMED, EDIT), ("executor",)),
        (asking(decides("approve_all"), JUDGED), ("profiler",)),
        (asking(decides("approve"), ("executor", evaluation(VECTOR, FAULTS[0]))), ("fixer",)),
        (
            asking(decides("approve"), ("executor", evaluation(VECTOR, timed(1.0, "tie")))),
            ("profiler",),
        ),
    ],
)
def test_where_a_human_is_asked(thread: list[Turn], expected: tuple[Speaker, ...]) -> None:
    assert next_speakers(thread, LIMITS) == Next(expected)


def test_a_rejected_last_round_ends_the_run() -> None:
    thread = asking(decides("reject"))
    assert next_speakers(thread, Limits(rounds=1)) == Next((), "rounds")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.kind)
def test_every_fault_goes_to_the_fixer(fault: Outcome) -> None:
    thread = chat(*PLANNED, ("executor", build(VECTOR)), ("executor", evaluation(VECTOR, fault)))
    assert next_speakers(thread, LIMITS) == Next(("fixer",))


STOP: tuple[Speaker, Payload] = ("profiler", analysis("stop"))


@pytest.mark.parametrize(
    ("thread", "reason"),
    [
        (baseline_turns(WRONG_OUTCOME), "baseline_failed"),
        (chat(("planner", Pass(words=""))), "no_plan"),
        (chat(*PLANNED, JUDGED, STOP, CONFIRMED), "profiler"),
        (chat(*PLANNED, *PLANNED, JUDGED, ("profiler", analysis("plan")), CONFIRMED), "rounds"),
        (chat(*PLANNED, *PLANNED, JUDGED, ("profiler", analysis("unsure")), CONFIRMED), "rounds"),
        (chat(*PLANNED, *PLANNED, FAILED, ("fixer", KERNEL), FAILED), "rounds"),
    ],
)
def test_ends(thread: list[Turn], reason: str) -> None:
    assert next_speakers(thread, LIMITS) == Next((), reason)  # type: ignore[arg-type]


def confirms(source: str, outcome: Outcome) -> tuple[Speaker, Payload]:
    return "executor", evaluation(source, outcome).model_copy(update={"confirms": True})


OTHER = VECTOR + "// another"


def test_a_winner_is_confirmed_before_any_end_and_only_that_figure_counts() -> None:
    searched = chat(*PLANNED, JUDGED, STOP)
    assert next_speakers(searched, LIMITS) == Next(("executor",))
    found = best([*searched, Turn(*confirms(VECTOR, timed(1.3)))])
    assert found is not None and found[0].confirms and found[1].ratio == 1.3


def test_where_a_winner_does_not_hold_the_next_best_is_confirmed() -> None:
    other: list[tuple[Speaker, Payload]] = [
        ("planner", plan()), ("coder", Kernel(words="", source=OTHER)),
        ("executor", evaluation(OTHER, timed(1.2))),
    ]  # fmt: skip
    thread = chat(*PLANNED, JUDGED, *other, STOP)
    assert to_confirm(thread, LIMITS) == candidate_id(VECTOR)
    thread.append(Turn(*confirms(VECTOR, WRONG_OUTCOME)))
    assert next_speakers(thread, LIMITS) == Next(("executor",))
    assert to_confirm(thread, LIMITS) == candidate_id(OTHER)
    thread.append(Turn(*confirms(OTHER, timed(1.0, "tie"))))
    assert best(thread) is None
    assert next_speakers(thread, LIMITS) == Next((), "profiler")


def test_confirmations_are_bounded_and_a_run_may_go_without() -> None:
    searched = chat(*PLANNED, JUDGED, STOP)
    none = LIMITS.model_copy(update={"confirmations": 0})
    assert next_speakers(searched, none) == Next((), "profiler")


def test_a_run_goes_on_after_a_confirmation() -> None:
    thread = chat(*PLANNED, *PLANNED, JUDGED, ("profiler", analysis("plan")), CONFIRMED)
    assert next_speakers(thread, Limits(rounds=3)) == Next(("planner",))


def speak(speaker: Speaker, dice: random.Random, thread: list[Turn]) -> Payload:
    """Anything that a role may say."""
    if speaker != "executor" and dice.random() < 0.2:
        return Pass(words="")
    match speaker:
        case "tester":
            return suite((dice.randint(1, 9), 4))
        case "planner":
            return plan()
        case "coder" | "fixer":
            return KERNEL
        case "profiler":
            return analysis(dice.choice(["plan", "unsure", "stop"]))
        case _:
            outcome = dice.choice([*FAULTS, timed(dice.uniform(0.5, 2))])
            if isinstance(thread[-1].payload, Kernel):
                return build(dice.choice([BROKEN, VECTOR]))
            if isinstance(thread[-1].payload, BuildReport) and not failed(thread[-1].payload):
                return evaluation(VECTOR, outcome)
            if to_confirm(thread, Limits()) is not None:
                return confirms(VECTOR, outcome)[1]
            return evaluation(SCALAR, outcome)


@given(st.integers(), st.integers(1, 4), st.integers(0, 3))
def test_every_chat_ends_within_its_limits(seed: int, rounds: int, most_repairs: int) -> None:
    dice, limits = random.Random(seed), Limits(rounds=rounds, repairs=most_repairs)
    thread = [Turn("user", commission())]
    while (following := next_speakers(thread, limits)).speakers:
        assert following.stop is None
        assert len(following.speakers) == 1 or following.speakers == ("planner", "tester")
        speaker = dice.choice(following.speakers)
        thread.append(Turn(speaker, speak(speaker, dice, thread)))
        assert repairs(thread) <= most_repairs
        assert len(thread) <= 3 + rounds * (6 + 3 * most_repairs) + 4
    assert following.stop is not None
    assert rounds_begun(thread) <= rounds
    assert isinstance(thread[0].payload, type(commission()))
    assert sum(isinstance(turn.payload, Plan) for turn in thread) == rounds_begun(thread)


def by(words: str, *turns: tuple[Speaker, Payload]) -> list[Turn]:
    """A chat by a strategy that goes on after the baseline."""
    opened = commission().model_copy(update={"strategy": parse_strategy(words)})
    return [Turn("user", opened), *chat(*turns)[1:]]


MORE = Kernel(words="", source=OTHER)
TWO: list[tuple[Speaker, Payload]] = [*PLANNED, ("coder", MORE)]
BUILDS: list[tuple[Speaker, Payload]] = [
    ("executor", build(VECTOR)), ("executor", build(OTHER)),
]  # fmt: skip
LAME: tuple[Speaker, Payload] = ("executor", evaluation(OTHER, FAULTS[0]))


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (PLANNED, "coder"),
        ([*PLANNED, ("coder", Pass(words=""))], "executor"),
        ([*PLANNED[:1], ("coder", Pass(words=""))], "planner"),
        (TWO, "executor"),
        ([*TWO, *BUILDS[:1]], "executor"),
        ([*TWO, *BUILDS], "executor"),
        ([*TWO, *BUILDS, JUDGED], "executor"),
        ([*TWO, *BUILDS, JUDGED, LAME], "profiler"),
        ([*TWO, BUILDS[0], ("executor", build(OTHER)), LAME, LAME], "executor"),
    ],
)
def test_a_beam_takes_several_kernels_of_a_plan(
    turns: list[tuple[Speaker, Payload]], expected: Speaker
) -> None:
    assert next_speakers(by("beam:1x2", *turns), LIMITS) == Next((expected,))


def test_only_where_no_kernel_of_a_plan_is_right_one_is_repaired() -> None:
    wrong: tuple[Speaker, Payload] = ("executor", evaluation(VECTOR, FAULTS[0]))
    thread = by("beam:1x2", *TWO, *BUILDS, wrong, LAME)
    assert next_speakers(thread, LIMITS) == Next(("fixer",))


@pytest.mark.parametrize(
    ("turns", "expected", "place"),
    [
        ([], "single", "planner"),
        ([("single", plan())], "single", "coder"),
        ([("single", plan()), ("single", KERNEL)], "executor", "executor"),
        ([("single", plan()), ("single", KERNEL), ("executor", build(VECTOR))], "executor",
         "executor"),
        ([("single", plan()), ("single", KERNEL), ("executor", build(VECTOR)), JUDGED], "single",
         "planner"),
        ([("single", plan()), ("single", Kernel(words="", source=BROKEN)), FAILED], "single",
         "fixer"),
        ([("single", plan()), ("single", Pass(words=""))], "single", "planner"),
    ],
)  # fmt: skip
def test_alone_one_takes_all_places(
    turns: list[tuple[Speaker, Payload]], expected: Speaker, place: Speaker
) -> None:
    thread = by("single", *turns)
    assert next_speakers(thread, LIMITS) == Next((expected,))
    assert acts_as(thread, LIMITS) == place


def test_alone_without_a_plan_it_ends() -> None:
    assert next_speakers(by("single", ("single", Pass(words=""))), LIMITS) == Next((), "no_plan")


def test_alone_there_is_no_tester() -> None:
    opened = by("single")[:1]
    assert next_speakers(opened, LIMITS) == Next(("executor",))


SCORED = Limits(rounds=2, repairs=1, mutants=4)
KILLER, IDLE = (case.case() for case in suite((7, 12), (9, 4)).cases)
SCORES = CaseScores(
    asked=4, mutants=("a", "b"), own=("a",),
    cases=(CaseScore(case=KILLER, kills=("b",)), CaseScore(case=IDLE)),
)  # fmt: skip


def test_the_testers_cases_are_scored_before_they_are_run() -> None:
    opened = [Turn("user", commission()), Turn("tester", suite((7, 12), (9, 4)))]
    assert next_speakers(opened, SCORED) == Next(("executor",))
    scored = [*opened, Turn("executor", SCORES)]
    assert next_speakers(scored, SCORED) == Next(("executor",)), "then the baseline is judged"
    judged = [*scored, Turn("executor", evaluation(SCALAR, timed(1.0, "tie")))]
    assert next_speakers(judged, SCORED) == Next(("planner",))
    again = [*judged, Turn("tester", suite((9, 4)))]
    assert next_speakers(again, SCORED) == Next(("executor",))
    assert next_speakers([*again, Turn("executor", SCORES)], SCORED) == Next(("planner",))


def test_cases_that_notice_no_seeded_bug_are_not_kept() -> None:
    opened = [Turn("user", commission()), Turn("tester", suite((7, 12), (9, 4)))]
    assert extra_cases([*opened, Turn("executor", SCORES)]) == (KILLER,)
    nothing_built = SCORES.model_copy(update={"mutants": (), "own": ()})
    assert extra_cases([*opened, Turn("executor", nothing_built)]) == (KILLER, IDLE)
