"""Who may speak next: one pure function of the typed thread.

user -> tester -> executor (scores its cases) -> executor (the baseline) -> planner -> coder
  -> executor (build) -> executor (evaluate) -> profiler -> planner | tester | stop
a build or an evaluation that fails -> fixer, at most `repairs` times a round, then planner
where the user wants to be asked (approval_gates.py): a build -> human; an evaluation better than
  the best so far -> executor, once more to confirm it -> human, if it held
  -> executor or profiler if approved, executor with the human's own edit, planner if rejected
before any end: executor, once more about the best candidate, until one holds
strategy beam:KxN: N coder turns a plan, then a build and an evaluation of each
strategy single: one speaker in place of planner, coder and fixer; no tester, no profiler
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from astra_chat.agents.approval_gates import gate, to_confirm, to_prove, undecided
from astra_chat.agents.run_state import (
    Limits,
    Thread,
    Turn,
    best,
    kernels_of,
    repairs,
    round_passed,
    rounds_begun,
    to_score,
    turns_of,
    unbuilt,
    unconfirmed,
    unrun,
)
from astra_chat.agents.search_state import percent_of_limit, strategy, without_gain
from astra_chat.agents.turns import (
    Analysis,
    Approval,
    Kernel,
    Pass,
    Plan,
    RunRequest,
    Speaker,
    TestSuite,
)
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.types import BuildReport, Correct, Evaluation, Timed, Value

StopReason = Literal["rounds", "profiler", "no_plan", "baseline_failed", "near_limit", "no_gain"]

STOP_WORDS: dict[StopReason, str] = {
    "rounds": "all rounds are done",
    "profiler": "the profiler sees nothing further to gain",
    "no_plan": "the planner has no further plan",
    "near_limit": "the best candidate is as near to the physical limit as was asked for",
    "no_gain": "as many rounds in a row as were allowed brought no new best",
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
    if gate(thread, limits) is not None:
        return Next(("human",))
    if to_prove(thread, limits) is not None:
        return Next(("executor",))
    following = _in_search(unconfirmed(thread), limits)
    if following.stop is not None and to_confirm(thread, limits) is not None:
        return Next(("executor",))
    return following


def acts_as(thread: Thread, limits: Limits) -> Speaker | None:
    """Whose place `single` takes if it speaks after `thread`; None at the end."""
    return next(iter(_in_team(unconfirmed(thread), limits).speakers), None)


def _in_search(thread: Thread, limits: Limits) -> Next:
    """Who follows a thread without confirmations."""
    following = _in_team(thread, limits)
    if strategy(thread).kind == "single" and following.speakers[:1] in SINGLE:
        return Next(("single",))
    return following


SINGLE = (("planner",), ("coder",), ("fixer",))


def _in_team(thread: Thread, limits: Limits) -> Next:
    """The same with `single` by the names of those whose places it takes."""
    last = thread[-1].payload
    if not isinstance(last, Approval):
        return _after(thread, limits)
    if last.decision == "reject":
        return Next(("executor",)) if _pending(thread) else _next_round(thread, limits)
    return _after(undecided(thread), limits)


def _pending(thread: Thread) -> bool:
    """Whether a kernel of the round waits to be built or run."""
    return bool(unbuilt(thread)) or unrun(thread) is not None


def _after(thread: Thread, limits: Limits) -> Next:
    """Who follows a turn that needs no decision, or has got one."""
    last = thread[-1]
    match last.payload:
        case RunRequest(strategy=asked):
            return Next(("executor" if asked.kind == "single" else "tester",))
        case TestSuite() | CaseScores():
            return _after_tester(thread, limits)
        case Plan():
            return Next(("coder",))
        case Kernel():
            return _after_kernel(thread, last.speaker)
        case BuildReport():
            return Next(("executor",)) if _pending(thread) else _round_done(thread, limits)
        case Evaluation() as evaluation:
            return _after_evaluation(thread, evaluation, limits)
        case Analysis() as analysis:
            return _after_analysis(thread, analysis, limits)
        case Pass():
            return _after_pass(thread, last, limits)
        case Approval():
            raise ValueError("two decisions in a row about one candidate")


def _after_tester(thread: Thread, limits: Limits) -> Next:
    if to_score(thread, limits) or not turns_of(thread, Evaluation):
        return Next(("executor",))
    return _next_round(thread, limits)


def _after_kernel(thread: Thread, speaker: Speaker) -> Next:
    """Further kernels of the plan, or the build of the first."""
    wanted = strategy(thread).candidates
    if speaker == "coder" and kernels_of(thread, "coder") < wanted:
        return Next(("coder",))
    return Next(("executor",))


def _after_evaluation(thread: Thread, evaluation: Evaluation, limits: Limits) -> Next:
    if len(turns_of(thread, Evaluation)) == 1:
        passed = isinstance(evaluation.outcome, Timed | Correct)
        return Next(("planner",)) if passed else Next((), "baseline_failed")
    return Next(("executor",)) if _pending(thread) else _round_done(thread, limits)


def _round_done(thread: Thread, limits: Limits) -> Next:
    """All kernels of the round were built, and run where they build."""
    if not round_passed(thread):
        return _repair(thread, limits)
    if strategy(thread).kind == "single":
        return _next_round(thread, limits)
    return Next(("profiler",))


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
    if last.speaker == "planner" or (
        last.speaker == "single" and acts_as(thread[:-1], limits) == "planner"
    ):
        return Next((), "no_plan")
    if last.speaker == "coder" and _pending(thread):
        return Next(("executor",))
    return _next_round(thread, limits)


def _repair(thread: Thread, limits: Limits) -> Next:
    if repairs(thread) < limits.repairs:
        return Next(("fixer",))
    return _next_round(thread, limits)


def _next_round(thread: Thread, limits: Limits) -> Next:
    if rounds_begun(thread) >= limits.rounds:
        return Next((), "rounds")
    found, wanted = best(thread), limits.stop_at_percent
    if found is not None and wanted is not None and percent_of_limit(found[1]) >= wanted:
        return Next((), "near_limit")
    if limits.patience is not None and without_gain(thread) >= limits.patience:
        return Next((), "no_gain")
    return Next(("planner",))
