"""The turn order, row by row, and what holds for every chat that follows it."""

from __future__ import annotations

import random
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_chat.agents.limits import Limits
from astra_chat.agents.prompt import ChatContext, turn_prompt
from astra_chat.agents.run_state import RunState, state_of
from astra_chat.agents.strategy import parse_strategy
from astra_chat.agents.turn_order import (
    Ask,
    AskHuman,
    Baseline,
    Build,
    Confirm,
    Run,
    Score,
    Step,
    Stop,
    acts_as,
    next_step,
    speakers,
)
from astra_chat.agents.turns import Approval, Kernel, Pass, Payload, Plan, Speaker, Turn
from astra_chat.tools.mutation.scores import CaseScore, CaseScores
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Crashed, Outcome, TimedOut, Unsafe, Unsupported, candidate_id
from tests.chat_samples import (
    BROKEN,
    CASE,
    KERNELS,
    SCALAR,
    VECTOR,
    WRONG_OUTCOME,
    analysis,
    asking_turns,
    baseline_turns,
    build,
    evaluation,
    plan,
    run_request,
    suite,
    timed,
)

LIMITS = Limits(rounds=2, repairs=1)
TESTER, PLANNER = Ask("tester", "tester"), Ask("planner", "planner")
CODER, FIXER, PROFILER = Ask("coder", "coder"), Ask("fixer", "fixer"), Ask("profiler", "profiler")


def step(thread: list[Turn], limits: Limits = LIMITS) -> Step:
    return next_step(state_of(thread, limits))


FAULTS: list[Outcome] = [
    WRONG_OUTCOME,
    Crashed(case=CASE, message="signal 11"),
    TimedOut(step="check", limit_s=60),
    Unsupported(what="wgmma", kernel="k", opcode="wgmma.mma_async", line=7),
]


def chat(*turns: tuple[Speaker, Payload]) -> list[Turn]:
    """A chat that continues after the baseline."""
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
        ([Turn("user", run_request())], TESTER),
        (baseline_turns()[:2], Baseline()),
        ([*baseline_turns()[:1], Turn("tester", Pass(words=""))], Baseline()),
        (baseline_turns(), PLANNER),
        (chat(PLANNED[0]), CODER),
        (chat(*PLANNED), Build((KERNEL,))),
        (chat(*PLANNED, ("executor", build(VECTOR))), Run(KERNEL)),
        (chat(*PLANNED, FAILED), FIXER),
        (chat(*PLANNED, FAILED, ("fixer", KERNEL)), Build((KERNEL,))),
        (chat(*PLANNED, FAILED, ("fixer", KERNEL), FAILED), PLANNER),
        (chat(*PLANNED, FAILED, ("fixer", Pass(words=""))), PLANNER),
        (chat(PLANNED[0], ("coder", Pass(words=""))), PLANNER),
        (chat(*PLANNED, JUDGED), PROFILER),
        (chat(*PLANNED, JUDGED, ("profiler", analysis("plan"))), PLANNER),
        (
            chat(*PLANNED, JUDGED, ("profiler", analysis("unsure"))),
            Ask("planner", "planner", alternatives=("tester",)),
        ),
        (
            chat(*PLANNED, JUDGED, ("profiler", analysis("unsure")), ("tester", suite((9, 4)))),
            PLANNER,
        ),
        (chat(*PLANNED, JUDGED, ("profiler", Pass(words=""))), PLANNER),
        (chat(*PLANNED, ("executor", Pass(words=""))), PLANNER),
    ],
)
def test_the_table(thread: list[Turn], expected: Step) -> None:
    assert step(thread) == expected


def test_who_takes_a_step() -> None:
    assert speakers(Ask("planner", "planner", ("tester",))) == ("planner", "tester")
    assert speakers(AskHuman("run")) == ("human",) and speakers(Stop("rounds")) == ()
    assert speakers(Baseline()) == speakers(Run(KERNEL)) == ("executor",)


def asking(*turns: tuple[Speaker, Payload]) -> list[Turn]:
    """A chat whose user wants to be asked, up to a build and further."""
    more = [*PLANNED, ("executor", build(VECTOR)), *turns]
    return [*asking_turns(), *(Turn(speaker, payload) for speaker, payload in more)]


def decides(word: Literal["approve", "approve_all", "reject"]) -> tuple[Speaker, Payload]:
    return "human", Approval(candidate=KERNEL.candidate, decision=word)


EDITED = Kernel(words="", source=SCALAR)
EDIT: tuple[Speaker, Payload] = ("human", EDITED)
CONFIRM = Confirm(KERNEL.candidate, VECTOR)


@pytest.mark.parametrize(
    ("thread", "expected"),
    [
        (asking_turns(), PLANNER),
        (asking(), AskHuman("run")),
        (asking(decides("approve")), Run(KERNEL)),
        (asking(decides("approve_all")), Run(KERNEL)),
        (asking(decides("reject")), PLANNER),
        (asking(EDIT), Build((EDITED,))),
        (asking(EDIT, ("executor", build(SCALAR))), Run(EDITED)),
        (asking(EDIT, FAILED), FIXER),
        (asking(EDIT, FAILED, ("fixer", KERNEL), ("executor", build(VECTOR))), AskHuman("run")),
        (asking(decides("approve"), JUDGED), CONFIRM),
        (asking(decides("approve"), JUDGED, CONFIRMED), AskHuman("accept")),
        (asking(decides("approve"), JUDGED, CONFIRMED, decides("approve")), PROFILER),
        (asking(decides("approve"), JUDGED, CONFIRMED, decides("reject")), PLANNER),
        (asking(decides("approve"), JUDGED, CONFIRMED, EDIT), Build((EDITED,))),
        (asking(decides("approve_all"), JUDGED), PROFILER),
        (asking(decides("approve"), ("executor", evaluation(VECTOR, FAULTS[0]))), FIXER),
        (asking(decides("approve"), ("executor", evaluation(VECTOR, timed(1.0, "tie")))), PROFILER),
    ],
)
def test_where_a_human_is_asked(thread: list[Turn], expected: Step) -> None:
    assert step(thread) == expected


def test_a_rejected_last_round_ends_the_run() -> None:
    thread = asking(decides("reject"))
    assert step(thread, Limits(rounds=1)) == Stop("rounds")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.kind)
def test_every_fault_goes_to_the_fixer(fault: Outcome) -> None:
    thread = chat(*PLANNED, ("executor", build(VECTOR)), ("executor", evaluation(VECTOR, fault)))
    assert step(thread) == FIXER


STOP: tuple[Speaker, Payload] = ("profiler", analysis("stop"))


@pytest.mark.parametrize(
    ("thread", "reason"),
    [
        (baseline_turns(WRONG_OUTCOME), "baseline_failed"),
        (chat(("planner", Pass(words=""))), "no_plan"),
        (chat(*PLANNED, JUDGED, STOP, CONFIRMED), "profiler"),
        (chat(*PLANNED, *PLANNED, JUDGED, STOP, CONFIRMED), "rounds"),
        (chat(*PLANNED, *PLANNED, JUDGED, ("profiler", analysis("plan")), CONFIRMED), "rounds"),
        (chat(*PLANNED, *PLANNED, JUDGED, ("profiler", analysis("unsure")), CONFIRMED), "rounds"),
        (chat(*PLANNED, *PLANNED, FAILED, ("fixer", KERNEL), FAILED), "rounds"),
    ],
)
def test_ends(thread: list[Turn], reason: str) -> None:
    assert step(thread) == Stop(reason)  # type: ignore[arg-type]


def confirms(source: str, outcome: Outcome) -> tuple[Speaker, Payload]:
    return "executor", evaluation(source, outcome).model_copy(update={"confirms": True})


OTHER = VECTOR + "// another"
PLANNED_OTHER: list[tuple[Speaker, Payload]] = [
    ("planner", plan()),
    ("coder", Kernel(words="", source=OTHER)),
    ("executor", evaluation(OTHER, timed(1.2))),
]


def test_a_winner_is_confirmed_before_any_end_and_only_that_figure_counts() -> None:
    searched = chat(*PLANNED, JUDGED, STOP)
    assert step(searched) == CONFIRM
    found = state_of([*searched, Turn(*confirms(VECTOR, timed(1.3)))]).best
    assert found is not None and found[0].confirms and found[1].ratio == 1.3


def test_where_a_winner_does_not_hold_the_next_best_is_confirmed() -> None:
    thread = chat(*PLANNED, JUDGED, *PLANNED_OTHER, STOP)
    assert step(thread) == CONFIRM
    thread.append(Turn(*confirms(VECTOR, WRONG_OUTCOME)))
    assert step(thread) == Confirm(candidate_id(OTHER), OTHER)
    thread.append(Turn(*confirms(OTHER, timed(1.0, "tie"))))
    assert state_of(thread).best is None
    assert step(thread) == Stop("rounds")


def test_confirmations_are_bounded_and_a_run_may_go_without() -> None:
    searched = chat(*PLANNED, JUDGED, STOP)
    none = LIMITS.model_copy(update={"confirmations": 0})
    assert step(searched, none) == Stop("profiler")
    both = chat(*PLANNED, JUDGED, *PLANNED_OTHER, STOP)
    once = LIMITS.model_copy(update={"confirmations": 1})
    both.append(Turn(*confirms(VECTOR, WRONG_OUTCOME)))
    assert step(both, once) == Stop("rounds") and step(both) != step(both, once)


def test_a_run_goes_on_after_a_confirmation() -> None:
    thread = chat(*PLANNED, *PLANNED, JUDGED, ("profiler", analysis("plan")), CONFIRMED)
    assert step(thread, Limits(rounds=3)) == PLANNER


def speak(step: Step, speaker: Speaker, dice: random.Random) -> Payload:
    """Anything that a role may say, and the judge may find."""
    outcome = dice.choice([*FAULTS, timed(dice.uniform(0.5, 2))])
    match step:
        case Ask() if dice.random() < 0.2:
            return Pass(words="")
        case Ask():
            said: dict[Speaker, Payload] = {
                "tester": suite((dice.randint(1, 9), 4)),
                "planner": plan(),
                "coder": KERNEL,
                "fixer": KERNEL,
                "profiler": analysis(dice.choice(["plan", "unsure", "stop"])),
            }
            return said[speaker]
        case Build(kernels=(kernel, *_)):
            return build(kernel.source) if dice.random() < 0.7 else BROKEN_BUILD
        case Run(kernel=kernel):
            return evaluation(kernel.source, outcome)
        case Confirm(source=source):
            return confirms(source, outcome)[1]
        case _:
            return evaluation(SCALAR, outcome)


BROKEN_BUILD = build(BROKEN).model_copy(update={"candidate": KERNEL.candidate})


@given(st.integers(), st.integers(1, 4), st.integers(0, 3), st.integers(0, 2))
def test_every_chat_ends_within_its_limits(
    seed: int, rounds: int, most_repairs: int, winners: int
) -> None:
    dice = random.Random(seed)
    limits = Limits(rounds=rounds, repairs=most_repairs, winner_repairs=winners)
    thread, state = [Turn("user", run_request())], RunState(limits)
    state = state.after(thread[0])
    while not isinstance(following := next_step(state), Stop):
        legal = speakers(following)
        assert len(legal) == 1 or legal == ("planner", "tester")
        speaker = dice.choice(legal)
        thread.append(Turn(speaker, speak(following, speaker, dice)))
        state = state.after(thread[-1])
        assert state.round is None or state.round.repairs <= most_repairs + winners
        assert len(thread) <= 3 + rounds * (6 + 3 * most_repairs) + 4 + 4 * winners
        assert len(state.repaired) <= winners
    assert len(state.rounds) <= rounds
    assert sum(isinstance(turn.payload, Plan) for turn in thread) == len(state.rounds)


def by(words: str, *turns: tuple[Speaker, Payload]) -> list[Turn]:
    """A chat by a strategy that continues after the baseline."""
    opened = run_request().model_copy(update={"strategy": parse_strategy(words)})
    return [Turn("user", opened), *chat(*turns)[1:]]


MORE = Kernel(words="", source=OTHER)
TWO: list[tuple[Speaker, Payload]] = [*PLANNED, ("coder", MORE)]
BUILDS: list[tuple[Speaker, Payload]] = [
    ("executor", build(VECTOR)),
    ("executor", build(OTHER)),
]
LAME: tuple[Speaker, Payload] = ("executor", evaluation(OTHER, FAULTS[0]))


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (PLANNED, CODER),
        ([*PLANNED, ("coder", Pass(words=""))], Build((KERNEL,))),
        ([*PLANNED[:1], ("coder", Pass(words=""))], PLANNER),
        (TWO, Build((KERNEL, MORE))),
        ([*TWO, *BUILDS[:1]], Build((MORE,))),
        ([*TWO, *BUILDS], Run(KERNEL)),
        ([*TWO, *BUILDS, JUDGED], Run(MORE)),
        ([*TWO, *BUILDS, JUDGED, LAME], PROFILER),
        ([*TWO, BUILDS[0], ("executor", build(OTHER)), LAME, LAME], Run(KERNEL)),
    ],
)
def test_a_beam_takes_several_kernels_of_a_plan(
    turns: list[tuple[Speaker, Payload]], expected: Step
) -> None:
    assert step(by("beam:1x2", *turns)) == expected


def test_only_where_no_kernel_of_a_plan_is_right_one_is_repaired() -> None:
    wrong: tuple[Speaker, Payload] = ("executor", evaluation(VECTOR, FAULTS[0]))
    thread = by("beam:1x2", *TWO, *BUILDS, wrong, LAME)
    assert step(thread) == FIXER


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([], Ask("single", "planner")),
        ([("single", plan())], Ask("single", "coder")),
        ([("single", plan()), ("single", KERNEL)], Build((KERNEL,))),
        ([("single", plan()), ("single", KERNEL), ("executor", build(VECTOR))], Run(KERNEL)),
        (
            [("single", plan()), ("single", KERNEL), ("executor", build(VECTOR)), JUDGED],
            Ask("single", "planner"),
        ),
        (
            [("single", plan()), ("single", Kernel(words="", source=BROKEN)), FAILED],
            Ask("single", "fixer"),
        ),
        ([("single", plan()), ("single", Pass(words=""))], Ask("single", "planner")),
    ],
)
def test_alone_one_takes_all_places(turns: list[tuple[Speaker, Payload]], expected: Step) -> None:
    thread = by("single", *turns)
    assert step(thread) == expected
    assert acts_as("single", state_of(thread, LIMITS)) == getattr(expected, "acts_as", "single")
    assert acts_as("coder", state_of(thread, LIMITS)) == "coder"


@pytest.mark.parametrize("before", [[], [plan(), Pass(words="no kernel")]])
def test_alone_without_a_plan_it_ends(before: list[Payload]) -> None:
    passes: list[tuple[Speaker, Payload]] = [("single", said) for said in before]
    assert step(by("single", *passes, ("single", Pass(words="")))) == Stop("no_plan")


def test_alone_a_pass_in_place_of_a_repair_leads_to_a_plan() -> None:
    broken = Kernel(words="", source=BROKEN)
    failed: list[tuple[Speaker, Payload]] = [("single", plan()), ("single", broken), FAILED]
    thread = by("single", *failed, ("single", Pass(words="")))
    assert step(thread) == Ask("single", "planner")
    assert step([*thread, Turn("single", Pass(words=""))]) == Stop("no_plan")


def test_alone_there_is_no_tester() -> None:
    opened = by("single")[:1]
    assert step(opened) == Baseline()


SCORED = Limits(rounds=2, repairs=1, mutants=4)
KILLER, IDLE = (case.case() for case in suite((7, 12), (9, 4)).cases)
SCORES = CaseScores(
    asked=4,
    mutants=("a", "b"),
    own=("a",),
    cases=(CaseScore(case=KILLER, kills=("b",)), CaseScore(case=IDLE)),
)


def test_the_testers_cases_are_scored_before_they_are_run() -> None:
    opened = [Turn("user", run_request()), Turn("tester", suite((7, 12), (9, 4)))]
    assert step(opened, SCORED) == Score((KILLER, IDLE))
    scored = [*opened, Turn("executor", SCORES)]
    assert step(scored, SCORED) == Baseline()
    judged = [*scored, Turn("executor", evaluation(SCALAR, timed(1.0, "tie")))]
    assert step(judged, SCORED) == PLANNER
    again = [*judged, Turn("tester", suite((9, 4)))]
    assert step(again, SCORED) == Score((IDLE,))
    assert step([*again, Turn("executor", SCORES)], SCORED) == PLANNER


UNSAFE = Unsafe(case=CASE, what="racecheck: a race", where="kernel, k.cu:7")
FASTER = KERNELS["scalar.cu"]


def decision(decision: str, reason: str = "") -> Turn:
    said = {"candidate": candidate_id(VECTOR), "decision": decision, "reason": reason}
    return Turn("human", Approval.model_validate(said))


def judgement(source: str, outcome: Outcome, confirms: bool = False) -> Turn:
    found = evaluation(source, outcome).model_copy(update={"confirms": confirms})
    return Turn("executor", found)


def approved_attempt(source: str, outcome: Outcome, by: Speaker = "coder") -> list[Turn]:
    """A candidate that was allowed to run, and what came of it."""
    return [
        Turn(by, Kernel(words="", source=source)),
        Turn("executor", build(source)),
        decision("approve"),
        judgement(source, outcome),
    ]


def confirmable(*after: Turn) -> list[Turn]:
    return [*asking_turns(), Turn("planner", plan()), *approved_attempt(VECTOR, timed(1.9)), *after]


HELD = judgement(VECTOR, timed(1.8), confirms=True)


def gates(turns: list[Turn], limits: Limits = LIMITS) -> list[str]:
    steps = [step(turns[:end], limits) for end in range(1, len(turns) + 1)]
    return [one.gate for one in steps if isinstance(one, AskHuman)]


def test_where_nobody_is_asked_nothing_waits() -> None:
    turns = [
        *baseline_turns(),
        Turn("planner", plan()),
        *approved_attempt(VECTOR, timed(1.9)),
        HELD,
    ]
    assert gates(turns) == []


def test_what_would_be_accepted_is_confirmed_and_then_shown() -> None:
    searched = confirmable()
    assert step(searched) == Confirm(candidate_id(VECTOR), VECTOR)
    confirmed = confirmable(HELD)
    assert gates(confirmed) == ["run", "accept"]
    assert state_of(confirmed).best is None, "nobody accepted it yet"
    accepted = confirmable(HELD, decision("approve"))
    assert step(accepted) == PROFILER
    found = state_of(accepted).best
    assert found is not None and found[0].confirms and found[1].ratio == 1.8


def test_a_run_that_confirms_nothing_asks_at_once() -> None:
    none = LIMITS.model_copy(update={"confirmations": 0})
    assert gates(confirmable(), none) == ["run", "accept"]


def test_what_was_confirmed_is_not_confirmed_again_at_the_end() -> None:
    ended = confirmable(HELD, decision("approve"), Turn("profiler", analysis("stop")))
    assert step(ended) == Stop("profiler")


def test_a_refusal_after_the_confirmation_goes_to_the_planner(task: Task) -> None:
    refused = confirmable(HELD, decision("reject", "too hard to read"))
    assert step(refused) == PLANNER and state_of(refused).best is None
    context = ChatContext(task, task.baseline, "sglang", "virtual")
    assert "rejected by the human: too hard to read" in turn_prompt(
        "planner", context, state_of(refused, LIMITS)
    )
    last = LIMITS.model_copy(update={"rounds": 1})
    assert step(refused, last) == Stop("rounds"), "no round is left"


@pytest.mark.parametrize("outcome", [UNSAFE, timed(1.0, "tie")])
def test_what_does_not_hold_is_not_asked_about(outcome: Outcome) -> None:
    turns = confirmable(judgement(VECTOR, outcome, confirms=True))
    assert state_of(turns).best is None
    assert step(turns) == (FIXER if outcome == UNSAFE else PROFILER)


def test_the_fixer_is_told_what_the_sanitizers_found(task: Task) -> None:
    turns = confirmable(judgement(VECTOR, UNSAFE, confirms=True))
    context = ChatContext(task, task.baseline, "sglang", "virtual")
    assert "racecheck: a race" in turn_prompt("fixer", context, state_of(turns, LIMITS))
    under_way = state_of(turns).rounds[0]
    assert under_way.attempts[0].evaluation is not None and not under_way.passed


def test_only_what_is_faster_than_the_best_is_asked_about() -> None:
    first = confirmable(HELD, decision("approve"), Turn("profiler", analysis()))
    slower = [*first, Turn("planner", plan()), *approved_attempt(FASTER, timed(1.5))]
    assert step(slower) == PROFILER
    lucky = [*first, Turn("planner", plan()), *approved_attempt(FASTER, timed(1.85))]
    assert step(lucky) == Confirm(candidate_id(FASTER), FASTER)
    held = [*lucky, judgement(FASTER, timed(1.7), confirms=True)]
    assert step(held) == PROFILER, "on fresh seeds it is slower than the best"
    found = state_of(held).best
    assert found is not None and found[0].candidate == candidate_id(VECTOR)


def test_a_run_of_before_was_asked_first_and_is_not_asked_again() -> None:
    turns = confirmable(decision("approve"), Turn("profiler", analysis("stop")))
    assert step(turns) == Confirm(candidate_id(VECTOR), VECTOR)
    assert step([*turns, HELD]) == Stop("profiler")


def test_approve_all_asks_for_nothing_more() -> None:
    turns = asking_turns()
    turns += [Turn("planner", plan()), Turn("coder", Kernel(words="", source=VECTOR))]
    turns += [
        Turn("executor", build(VECTOR)),
        decision("approve_all"),
        judgement(VECTOR, timed(1.9)),
    ]
    assert gates(turns) == ["run"] and step(turns) == PROFILER


def test_the_humans_own_source_needs_no_leave_to_run_but_others_do() -> None:
    own = [Turn("human", Kernel(words="", source=FASTER)), Turn("executor", build(FASTER))]
    turns = confirmable(HELD, *own)
    assert step(turns) == Run(Kernel(words="", source=FASTER))
    assert step([*turns, Turn("executor", build(SCALAR + "// of a beam"))]) == AskHuman("run")


@pytest.mark.parametrize(
    ("killed", "asked"), [((), True), (("a",), True), (("a", "b"), False)], ids=str
)
def test_the_tester_is_not_asked_where_no_seeded_bug_survives(
    killed: tuple[str, ...], asked: bool
) -> None:
    rest = chat(*PLANNED, JUDGED, ("profiler", analysis("unsure")))[len(baseline_turns()) :]
    best = state_of([*baseline_turns(), *rest]).best
    assert best is not None
    for also in ("", best[0].candidate):
        scores = CaseScores(asked=2, mutants=("a", "b"), own=killed, cases=(), also=also)
        opened = [*baseline_turns()[:2], Turn("executor", scores), *baseline_turns()[2:]]
        found = step([*opened, *rest])
        assert isinstance(found, Ask) and found.role == "planner"
        unscored = not also  # no bug was put into the best candidate yet
        assert found.alternatives == (("tester",) if asked or unscored else ())


def test_the_tester_is_asked_where_no_seeded_bug_could_be_built() -> None:
    scores = CaseScores(asked=2, mutants=(), own=(), cases=())
    opened = [*baseline_turns()[:2], Turn("executor", scores), *baseline_turns()[2:]]
    rest = chat(*PLANNED, JUDGED, ("profiler", analysis("unsure")))[len(baseline_turns()) :]
    assert step([*opened, *rest]) == Ask("planner", "planner", alternatives=("tester",))


REPAIRS = LIMITS.model_copy(update={"winner_repairs": 2})
REPAIR = VECTOR + "// repaired"
REPAIR_ID = candidate_id(REPAIR)
REFUSED = Turn(*confirms(VECTOR, WRONG_OUTCOME))
FIXED: list[Turn] = [
    Turn("fixer", Kernel(words="", source=REPAIR)),
    Turn("executor", build(REPAIR)),
    Turn("executor", evaluation(REPAIR, timed(1.4))),
]


def searched(*more: Turn) -> list[Turn]:
    """A chat of two rounds at its end: 1.5x in the first, 1.2x in the second; then these turns."""
    return [*chat(*PLANNED, JUDGED, *PLANNED_OTHER, STOP), *more]


def test_a_winner_that_its_confirmation_refuses_is_repaired_and_confirmed() -> None:
    steps = [step(searched(REFUSED, *FIXED[:n]), REPAIRS) for n in range(4)]
    repair = Kernel(words="", source=REPAIR)
    assert steps[:3] == [FIXER, Build((repair,)), Run(repair)]
    assert steps[3] == Confirm(candidate_id(REPAIR), REPAIR)
    held = searched(REFUSED, *FIXED, Turn(*confirms(REPAIR, timed(1.3))))
    assert step(held, REPAIRS) == Stop("rounds"), "the search had ended, and ends the same way"
    found = state_of(held).best
    assert found is not None and (found[0].candidate, found[1].ratio) == (candidate_id(REPAIR), 1.3)


@pytest.mark.parametrize(
    "failed",
    [
        [Turn("fixer", Pass(words=""))],
        [*FIXED[:1], Turn("executor", BROKEN_BUILD.model_copy(update={"candidate": REPAIR_ID}))],
        [*FIXED[:2], Turn("executor", evaluation(REPAIR, WRONG_OUTCOME))],
        [*FIXED, Turn(*confirms(REPAIR, WRONG_OUTCOME))],
    ],
    ids=["passed", "unbuilt", "wrong", "refused"],
)
def test_a_repair_that_fails_leaves_the_next_best_to_be_confirmed(failed: list[Turn]) -> None:
    thread = searched(REFUSED, *failed)
    assert step(thread, REPAIRS) == Confirm(candidate_id(OTHER), OTHER)
    thread.append(Turn(*confirms(OTHER, WRONG_OUTCOME)))
    assert step(thread, REPAIRS) == FIXER, "each of two winners has one repair"
    assert step(thread, LIMITS.model_copy(update={"winner_repairs": 1})) == Stop("rounds")
    assert step([*thread, Turn("fixer", Pass(words=""))], REPAIRS) == Stop("rounds")


def test_a_repair_needs_room_for_its_run_and_its_confirmation() -> None:
    spent = state_of(searched(REFUSED)).evaluations
    for more, expected in ((1, Confirm(candidate_id(OTHER), OTHER)), (2, FIXER)):
        limits = REPAIRS.model_copy(update={"evaluations": spent + more})
        assert step(searched(REFUSED), limits) == expected


def test_what_a_confirmation_refused_is_no_parent_and_no_best_any_more() -> None:
    state = state_of(searched(REFUSED))
    (lost,) = state.lost_winners
    assert lost.kernel.candidate == candidate_id(VECTOR) and lost.won is JUDGED[1]
    assert [one.correct for one in state.tried] == [True, False, True]
    assert state.next_parent[1] is PLANNED_OTHER[2][1]


def test_a_repair_by_the_single_agent_and_a_run_that_goes_on_after_it() -> None:
    opened = run_request().model_copy(update={"strategy": parse_strategy("single")})
    thread = [Turn("user", opened), *searched(REFUSED)[1:]]
    assert step(thread, REPAIRS) == Ask("single", "fixer")
    more = LIMITS.model_copy(update={"rounds": 5})
    resumed = [*searched(REFUSED)[:-2], REFUSED]
    assert step(resumed, more) == Ask("profiler", "profiler")


def test_with_several_kernels_a_plan_the_refused_one_is_repaired_before_the_round_ends() -> None:
    beam = {"approval": True, "strategy": parse_strategy("beam:1x2")}
    opened = run_request().model_copy(update=beam)
    yes = Turn("human", Approval(candidate="", decision="approve"))
    turns = [*chat(*TWO, BUILDS[0])[1:], yes, *chat(BUILDS[1])[-1:], yes]
    turns += [Turn("executor", evaluation(VECTOR, timed(1.2))), REFUSED]
    turns += [Turn("executor", evaluation(OTHER, timed(0.9, "slower")))]
    thread = [Turn("user", opened), *turns]
    assert step(thread, REPAIRS) == FIXER and step(thread) == PROFILER
    to_fix = state_of(thread, REPAIRS).to_fix
    assert to_fix is not None and to_fix.kernel == KERNEL
