"""Who may speak next: one pure function of the typed thread.

user -> tester -> executor (the baseline) -> planner -> coder -> executor (build)
  -> executor (evaluate) -> profiler -> planner | tester | stop
a build or an evaluation that fails -> fixer, at most `repairs` times a round, then planner
where the user wants to be asked: a build, or an evaluation better than the best so far -> human
  -> executor or profiler if approved, executor with the human's own edit, planner if rejected
before any end: executor, once more about the best candidate, until one holds
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from astra_chat.agents.payloads import (
    Analysis,
    Approval,
    Commission,
    Kernel,
    Pass,
    Plan,
    Speaker,
    TestSuite,
)
from astra_chat.agents.thread import (
    Limits,
    Thread,
    Turn,
    failed,
    gate,
    repairs,
    rounds_begun,
    to_confirm,
    turns_of,
    unconfirmed,
    undecided,
)
from astra_chat.tools.types import BuildReport, Correct, Evaluation, Timed, Value

StopReason = Literal["rounds", "profiler", "no_plan", "baseline_failed"]

STOP_WORDS: dict[StopReason, str] = {
    "rounds": "all rounds are done",
    "profiler": "the profiler sees nothing further to gain",
    "no_plan": "the planner has no further plan",
    "baseline_failed": "the baseline itself did not pass, so nothing can be compared with it",
}


@dataclass(frozen=True)
class Next:
    """The legal next speakers: one by rule, two for a model to choose from, none to stop."""

    speakers: tuple[Speaker, ...]
    stop: StopReason | None = None


class Decision(Value):
    """Who speaks next, and who decided it."""

    speaker: Speaker
    by: Literal["rule", "model"]
    legal: tuple[Speaker, ...]
    rejected: tuple[str, ...] = ()
    """Answers of the model that could not be used, in words."""


def next_speakers(thread: Thread, limits: Limits) -> Next:
    """Who may speak after `thread`, which holds at least the user's commission."""
    following = _in_search(unconfirmed(thread), limits)
    if following.stop is not None and to_confirm(thread, limits) is not None:
        return Next(("executor",))
    return following


def _in_search(thread: Thread, limits: Limits) -> Next:
    """Who follows a thread without confirmations."""
    last = thread[-1].payload
    if gate(thread) is not None:
        return Next(("human",))
    if not isinstance(last, Approval):
        return _after(thread, limits)
    if last.decision == "reject":
        return _next_round(thread, limits)
    return _after(undecided(thread), limits)


def _after(thread: Thread, limits: Limits) -> Next:
    """Who follows a turn that needs no decision, or has got one."""
    last = thread[-1]
    match last.payload:
        case Commission():
            return Next(("tester",))
        case TestSuite():
            return _after_tester(thread, limits)
        case Plan():
            return Next(("coder",))
        case Kernel():
            return Next(("executor",))
        case BuildReport() as report:
            return _repair(thread, limits) if failed(report) else Next(("executor",))
        case Evaluation() as evaluation:
            return _after_evaluation(thread, evaluation, limits)
        case Analysis() as analysis:
            return _after_analysis(thread, analysis, limits)
        case Pass():
            return _after_pass(thread, last, limits)
        case Approval():
            raise ValueError("two decisions in a row about one candidate")


def _after_tester(thread: Thread, limits: Limits) -> Next:
    if not turns_of(thread, Evaluation):
        return Next(("executor",))
    return _next_round(thread, limits)


def _after_evaluation(thread: Thread, evaluation: Evaluation, limits: Limits) -> Next:
    passed = isinstance(evaluation.outcome, Timed | Correct)
    if len(turns_of(thread, Evaluation)) == 1:
        return Next(("planner",)) if passed else Next((), "baseline_failed")
    return Next(("profiler",)) if passed else _repair(thread, limits)


def _after_analysis(thread: Thread, analysis: Analysis, limits: Limits) -> Next:
    if analysis.next == "stop":
        return Next((), "profiler")
    following = _next_round(thread, limits)
    if analysis.next == "unsure" and following.speakers:
        return Next(("planner", "tester"))
    return following


def _after_pass(thread: Thread, last: Turn, limits: Limits) -> Next:
    if last.speaker == "tester":
        return _after_tester(thread, limits)
    if last.speaker == "planner":
        return Next((), "no_plan")
    return _next_round(thread, limits)


def _repair(thread: Thread, limits: Limits) -> Next:
    if repairs(thread) < limits.repairs:
        return Next(("fixer",))
    return _next_round(thread, limits)


def _next_round(thread: Thread, limits: Limits) -> Next:
    if rounds_begun(thread) >= limits.rounds:
        return Next((), "rounds")
    return Next(("planner",))
