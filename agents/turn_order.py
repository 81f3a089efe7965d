"""What comes next: `next_step`, one pure function of the state. Nothing else decides it.

user -> tester -> score of its cases -> the baseline -> planner -> coder -> build -> run
  -> profiler -> planner | tester | stop
a correct candidate that marks constants, where the run tunes -> tuning -> the tuned kernel, its
  build and run -> profiler
a build or an evaluation that fails -> fixer, at most `repairs` times a round, then planner
where the user wants to be asked: a build -> human; an evaluation better than the best so far
  -> confirmation -> human, if it held -> run or profiler if approved, the build of the human's own
  edit, planner if rejected
before any end: confirmations of the best candidate, until one holds; one that is refused there ->
  fixer, once for each of `winner_repairs` winners, then build, run and confirmation of its kernel
strategy beam:KxN: N coder turns a plan, then a build and a run of each
strategy single: one speaker in place of planner, coder and fixer; no tester, no profiler
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from astra_chat.agents.constants import to_tune, tuned_kernel
from astra_chat.agents.evaluations import faster
from astra_chat.agents.rounds import failed
from astra_chat.agents.run_state import RunState, proposed
from astra_chat.agents.standing import rounds_without_gain
from astra_chat.agents.turns import (
    Analysis,
    Kernel,
    Payload,
    Plan,
    RoleName,
    RunRequest,
    Speaker,
    TestSuite,
)
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.timing.best import best_of
from astra_chat.tools.timing.intervals import percent_of_limit
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Case, Correct, Timed, Value

StopReason = Literal[
    "rounds", "profiler", "no_plan", "baseline_failed", "near_limit", "no_gain", "evaluations"
]
STOP_TEXTS: dict[StopReason, str] = {
    "rounds": "all rounds are done",
    "profiler": "the profiler expects no further gain",
    "no_plan": "the planner has no further plan",
    "near_limit": "the best candidate reached the share of the physical limit that --stop-at sets",
    "no_gain": "no new best for as many rounds in a row as --patience allows",
    "evaluations": "the budget of evaluations is used up",
    "baseline_failed": "the baseline itself failed, so nothing can be compared with it",
}
"""Why a chat ends by its own rules, as text."""


@dataclass(frozen=True)
class Score:
    """The executor scores the tester's cases by seeded bugs."""

    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Baseline:
    """The executor judges the baseline against itself."""


@dataclass(frozen=True)
class Build:
    """The executor builds the first of these kernels; the others come next."""

    kernels: tuple[Kernel, ...]


@dataclass(frozen=True)
class Run:
    """The executor evaluates a kernel that was built."""

    kernel: Kernel


@dataclass(frozen=True)
class Tune:
    """The executor tunes the constants that a correct kernel marks."""

    kernel: Kernel


@dataclass(frozen=True)
class Propose:
    """The executor gives a tuned kernel, which is built and run like any other."""

    kernel: Kernel


@dataclass(frozen=True)
class Confirm:
    """The executor evaluates a winner once more, on fresh seeds and under the sanitizers.

    Choosing the fastest of many measurements biases its time, so that time is not reported.
    """

    candidate: str
    source: str


@dataclass(frozen=True)
class Ask:
    """A model speaks."""

    role: RoleName
    acts_as: RoleName
    """The role itself; for `single`, the role that it acts as."""
    alternatives: tuple[RoleName, ...] = ()
    """Other roles that may speak; if there are any, the selector's model chooses."""


Gate = Literal["run", "accept"]


@dataclass(frozen=True)
class AskHuman:
    """A human decides about the last candidate."""

    gate: Gate
    """May it be run; is it accepted as the best?"""


@dataclass(frozen=True)
class Stop:
    """The chat is at its end."""

    reason: StopReason


Step: TypeAlias = Score | Baseline | Build | Run | Tune | Propose | Confirm | Ask | AskHuman | Stop

SINGLE: tuple[RoleName, ...] = ("planner", "coder", "fixer")
"""Roles that `single` acts as."""


class Decision(Value):
    """Who speaks next, and who decided it."""

    speaker: Speaker
    by: Literal["rule", "model"]
    legal: tuple[Speaker, ...]
    rejected: tuple[str, ...] = ()
    """Reasons why replies of the model could not be used."""


def speakers(step: Step) -> tuple[Speaker, ...]:
    """Who may take this step: one, or two for a model to choose from, or none at the end."""
    match step:
        case Ask(role=role, alternatives=alternatives):
            return (role, *alternatives)
        case AskHuman():
            return ("human",)
        case Stop():
            return ()
        case _:
            return ("executor",)


def next_step(state: RunState) -> Step:
    """What comes after the last turn."""
    if state.asks_human and (asked := _of_human(state)) is not None:
        return asked
    step = _repair_of_winner(state) or _in_search(state)
    if isinstance(step, Stop):
        return _confirm_winner(state) or step
    if isinstance(step, Ask) and state.strategy.kind == "single" and step.role in SINGLE:
        return Ask("single", acts_as=step.role)
    return step


def acts_as(role: RoleName, state: RunState) -> RoleName:
    """The role that `role` acts as in its next turn: itself, unless it is `single`."""
    step = next_step(state)
    return step.acts_as if role == "single" and isinstance(step, Ask) else role


def _ask(role: RoleName, *alternatives: RoleName) -> Ask:
    return Ask(role, role, alternatives)


def _of_human(state: RunState) -> AskHuman | Confirm | None:
    """What a human has to decide after the last turn, or what is confirmed before that.

    A failed build needs no decision, nor does a human's own source before it is run. If winners
    are confirmed, a human is asked about one after its confirmation.
    """
    match state.last.payload if state.last else None:
        case BuildReport() as report:
            return None if failed(report) or _by_human(state, report) else AskHuman("run")
        case Evaluation() as evaluation if _would_be_best(state, evaluation):
            if evaluation.confirms or not state.limits.confirmations:
                return AskHuman("accept")
            return _confirm(state, evaluation.candidate)
        case _:
            return None


def _by_human(state: RunState, report: BuildReport) -> bool:
    attempts = state.round.attempts if state.round else ()
    authors = [one.speaker for one in attempts if one.kernel.candidate == report.candidate]
    return authors[-1:] == ["human"]


def _would_be_best(state: RunState, evaluation: Evaluation) -> bool:
    """Whether the last turn evaluated a candidate that is faster than the best so far.

    A confirmation at the end of a search is of a candidate that was accepted before.
    """
    timed = faster(evaluation)
    if timed is None or evaluation is state.baseline:
        return False
    if evaluation.confirms and state.before_confirmation is None:
        return False
    known = [one for _, one in state.counted.values()]
    return best_of([*known, timed]) == len(known)


def _repair_of_winner(state: RunState) -> Step | None:
    """The fixer's turn on a winner that its confirmation refused, then the build and the run of the
    repair; None where there is nothing to repair, or no room for it."""
    if not state.repairing or state.repairing in state.repaired:
        return _pending(state) if state.repairing else None
    room = len(state.repaired) < state.limits.winner_repairs and state.may_evaluate
    return _ask("fixer") if room else None


def _confirm_winner(state: RunState) -> Confirm | None:
    """The candidate that has to be confirmed before the chat may end, if any."""
    most = state.limits.confirmations and state.limits.confirmations + len(state.repaired)
    if state.best is None or state.confirmations >= most:
        return None
    evaluation = state.best[0]
    return None if evaluation.confirms else _confirm(state, evaluation.candidate)


def _confirm(state: RunState, candidate: str) -> Confirm:
    return Confirm(candidate, state.sources[candidate])


def _in_search(state: RunState) -> Step:
    """What comes next; `single` under the names of the roles that it acts as."""
    return _after_pass(state, state.passes[-1]) if state.passes else _after_latest(state)


def _after_latest(state: RunState) -> Step:
    """After the last turn that requires work, with the human's decision about it."""
    if state.decision is not None and state.decision.decision == "reject":
        return _pending(state) or _next_round(state)
    match state.latest.payload if state.latest else None:
        case None:
            return _ask("tester")
        case RunRequest(strategy=asked):
            return Baseline() if asked.kind == "single" else _ask("tester")
        case TestSuite() as suite if state.limits.mutants and suite.cases:
            return Score(proposed(suite))
        case TestSuite() | CaseScores():
            return _after_tester(state)
        case Plan():
            return _ask("coder")
        case Tuning():
            return _round_done(state)
        case Analysis() as analysis:
            return _after_analysis(state, analysis)
        case work:
            return _after_candidate(state, work)


def _after_candidate(state: RunState, work: Payload) -> Step:
    """After a kernel, its build or its evaluation."""
    if isinstance(work, Kernel):
        return _after_kernel(state)
    if isinstance(work, Evaluation) and work is state.baseline:
        passed = isinstance(work.outcome, Timed | Correct)
        return _ask("planner") if passed else Stop("baseline_failed")
    return _pending(state) or _round_done(state)


def _pending(state: RunState) -> Build | Run | None:
    """The kernel of the round that waits to be built or run."""
    if state.round is None:
        return None
    if unbuilt := state.round.unbuilt:
        return Build(unbuilt)
    kernel = state.round.unrun
    return Run(kernel) if kernel and state.may_evaluate else None


def _after_tester(state: RunState) -> Step:
    return Baseline() if state.baseline is None else _next_round(state)


def _after_kernel(state: RunState) -> Step:
    """Further kernels of the plan, or the build of the first."""
    assert state.latest is not None
    by_coder, under_way = state.latest.speaker == "coder", state.round
    if by_coder and under_way and under_way.kernels_of("coder") < state.strategy.candidates:
        return _ask("coder")
    return _pending(state) or _next_round(state)


def _round_done(state: RunState) -> Step:
    """All kernels of the round were built, and run where they build."""
    under_way = state.round
    passed, repairs = (under_way.passed, under_way.repairs) if under_way else (False, 0)
    room = repairs < state.limits.repairs and state.may_evaluate
    if under_way and room and under_way.lost and state.limits.winner_repairs:
        return _ask("fixer")
    if not passed:
        return _ask("fixer") if room else _next_round(state)
    if state.may_evaluate and (kernel := to_tune(state)):
        return Tune(kernel)
    if kernel := tuned_kernel(state):
        return Propose(kernel)
    return _next_round(state) if state.strategy.kind == "single" else _ask("profiler")


def _after_analysis(state: RunState, analysis: Analysis) -> Step:
    following = _next_round(state)
    if analysis.next == "stop":
        return following if isinstance(following, Stop) else Stop("profiler")
    if analysis.next == "unsure" and isinstance(following, Ask) and _testable(state):
        return _ask("planner", "tester")
    return following


def _testable(state: RunState) -> bool:
    """Whether a tester may find something: a seeded bug survives that changes results, or none was
    put into the best candidate yet."""
    scores = state.scores
    if scores is None or not scores.mutants or scores.survivors:
        return True
    return state.best is not None and state.best[0].candidate != scores.also


def _after_pass(state: RunState, speaker: Speaker) -> Step:
    if speaker == "tester":
        return _after_tester(state)
    if speaker == "planner" or (speaker == "single" and _passed_as_planner(state)):
        return Stop("no_plan")
    pending = _pending(state) if speaker == "coder" else None
    return pending or _next_round(state)


def _passed_as_planner(state: RunState) -> bool:
    """Whether `single` passed when it was asked for a plan, not for a kernel."""
    asked = _after_latest(state)
    return len(state.passes) > 1 or (isinstance(asked, Ask) and asked.role == "planner")


def _next_round(state: RunState) -> Ask | Stop:
    limits = state.limits
    if len(state.rounds) >= limits.rounds:
        return Stop("rounds")
    best, wanted = state.best_of_search, limits.stop_at_percent
    if best is not None and wanted is not None and percent_of_limit(best[1]) >= wanted:
        return Stop("near_limit")
    if limits.patience is not None and rounds_without_gain(state.rounds) >= limits.patience:
        return Stop("no_gain")
    if not state.may_evaluate:
        return Stop("evaluations")
    return _ask("planner")
