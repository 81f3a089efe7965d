"""What a human decides, and that a candidate is confirmed before it is accepted."""

from __future__ import annotations

import pytest

from astra_chat.agents import run_state
from astra_chat.agents.approval_gates import Gate, gate, to_prove, undecided
from astra_chat.agents.prompt import ChatContext, brief
from astra_chat.agents.run_state import Limits, Turn
from astra_chat.agents.turn_order import Next, next_speakers
from astra_chat.agents.turns import Approval, Kernel, Speaker
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Outcome, Unsafe, candidate_id
from tests.chat_samples import (
    CASE,
    KERNELS,
    SCALAR,
    VECTOR,
    analysis,
    asking_turns,
    baseline_turns,
    build,
    evaluation,
    plan,
    timed,
)

LIMITS = Limits(rounds=2, repairs=1)
UNSAFE = Unsafe(case=CASE, what="racecheck: a race", where="kernel, k.cu:7")
FASTER = KERNELS["scalar.cu"]


def decided(decision: str, reason: str = "") -> Turn:
    said = {"candidate": candidate_id(VECTOR), "decision": decision, "reason": reason}
    return Turn("human", Approval.model_validate(said))


def judged(source: str, outcome: Outcome, confirms: bool = False) -> Turn:
    found = evaluation(source, outcome).model_copy(update={"confirms": confirms})
    return Turn("executor", found)


def attempt(source: str, outcome: Outcome, by: Speaker = "coder") -> list[Turn]:
    """A candidate that was allowed to run, and what came of it."""
    return [
        Turn(by, Kernel(words="", source=source)),
        Turn("executor", build(source)),
        decided("approve"),
        judged(source, outcome),
    ]


def asked(*after: Turn) -> list[Turn]:
    return [*asking_turns(), Turn("planner", plan()), *attempt(VECTOR, timed(1.9)), *after]


CONFIRMED = judged(VECTOR, timed(1.8), confirms=True)


def gates(turns: list[Turn], limits: Limits = LIMITS) -> list[Gate]:
    found = [gate(turns[:end], limits) for end in range(len(turns) + 1)]
    return [one for one in found if one]


def test_where_nobody_is_asked_nothing_waits() -> None:
    turns = [*baseline_turns(), Turn("planner", plan()), *attempt(VECTOR, timed(1.9)), CONFIRMED]
    assert gates(turns) == []
    assert all(to_prove(turns[:end], LIMITS) is None for end in range(1, len(turns) + 1))


def test_what_would_be_accepted_is_confirmed_and_then_shown() -> None:
    searched = asked()
    assert gate(searched, LIMITS) is None and to_prove(searched, LIMITS) == candidate_id(VECTOR)
    assert next_speakers(searched, LIMITS) == Next(("executor",))
    confirmed = asked(CONFIRMED)
    assert gates(confirmed) == ["run", "accept"] and to_prove(confirmed, LIMITS) is None
    assert next_speakers(confirmed, LIMITS) == Next(("human",))
    assert run_state.best(confirmed) is None, "nobody accepted it yet"
    accepted = asked(CONFIRMED, decided("approve"))
    assert next_speakers(accepted, LIMITS) == Next(("profiler",))
    found = run_state.best(accepted)
    assert found is not None and found[0].confirms and found[1].ratio == 1.8


def test_a_run_that_confirms_nothing_asks_at_once() -> None:
    none = LIMITS.model_copy(update={"confirmations": 0})
    assert gates(asked(), none) == ["run", "accept"] and to_prove(asked(), none) is None


def test_what_was_confirmed_is_not_confirmed_again_at_the_end() -> None:
    ended = asked(CONFIRMED, decided("approve"), Turn("profiler", analysis("stop")))
    assert next_speakers(ended, LIMITS) == Next((), "profiler")


def test_a_refusal_after_the_confirmation_goes_to_the_planner(task: Task) -> None:
    refused = asked(CONFIRMED, decided("reject", "too hard to read"))
    assert next_speakers(refused, LIMITS) == Next(("planner",))
    assert run_state.best(refused) is None
    setting = ChatContext(task, task.baseline, "sglang", "virtual", LIMITS)
    assert "rejected by the human: too hard to read" in brief("planner", setting, refused)
    last = LIMITS.model_copy(update={"rounds": 1})
    assert next_speakers(refused, last) == Next((), "rounds"), "no round is left"


@pytest.mark.parametrize("outcome", [UNSAFE, timed(1.0, "tie")])
def test_what_does_not_hold_is_not_asked_about(outcome: Outcome) -> None:
    turns = asked(judged(VECTOR, outcome, confirms=True))
    assert gate(turns, LIMITS) is None and run_state.best(turns) is None
    expected = "fixer" if outcome == UNSAFE else "profiler"
    assert next_speakers(turns, LIMITS) == Next((expected,))


def test_the_fixer_is_told_what_the_sanitizers_found(task: Task) -> None:
    turns = asked(judged(VECTOR, UNSAFE, confirms=True))
    setting = ChatContext(task, task.baseline, "sglang", "virtual", LIMITS)
    assert "racecheck: a race" in brief("fixer", setting, turns)
    assert run_state.rounds(turns)[0].attempts[0].evaluation is not None
    assert not run_state.round_passed(turns)


def test_only_what_is_faster_than_the_best_is_asked_about() -> None:
    first = asked(CONFIRMED, decided("approve"), Turn("profiler", analysis()))
    slower = [*first, Turn("planner", plan()), *attempt(FASTER, timed(1.5))]
    assert gate(slower, LIMITS) is None and to_prove(slower, LIMITS) is None
    lucky = [*first, Turn("planner", plan()), *attempt(FASTER, timed(1.85))]
    assert to_prove(lucky, LIMITS) == candidate_id(FASTER)
    held = [*lucky, judged(FASTER, timed(1.7), confirms=True)]
    assert gate(held, LIMITS) is None, "on fresh seeds it is slower than the best"
    found = run_state.best(held)
    assert found is not None and found[0].candidate == candidate_id(VECTOR)


def test_a_run_of_before_was_asked_first_and_is_not_asked_again() -> None:
    turns = asked(decided("approve"), Turn("profiler", analysis("stop")))
    assert next_speakers(turns, LIMITS) == Next(("executor",))
    assert next_speakers([*turns, CONFIRMED], LIMITS) == Next((), "profiler")


def test_approve_all_asks_for_nothing_more() -> None:
    turns = asking_turns()
    turns += [Turn("planner", plan()), Turn("coder", Kernel(words="", source=VECTOR))]
    turns += [Turn("executor", build(VECTOR)), decided("approve_all"), judged(VECTOR, timed(1.9))]
    assert gates(turns) == ["run"] and to_prove(turns, LIMITS) is None


def test_the_humans_own_source_needs_no_leave_to_run_but_others_do() -> None:
    own = [Turn("human", Kernel(words="", source=FASTER)), Turn("executor", build(FASTER))]
    turns = asked(CONFIRMED, *own)
    assert gate(turns, LIMITS) is None
    assert gate([*turns, Turn("executor", build(SCALAR + "// of a beam"))], LIMITS) == "run"


def test_a_decision_is_left_away() -> None:
    turns = asked(CONFIRMED, decided("approve"))
    assert undecided(turns) == turns[:-1] and undecided(turns[:-1]) == turns[:-1]
