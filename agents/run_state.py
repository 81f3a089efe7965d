"""Facts of a chat, derived from its typed thread alone: rounds, repairs, cases, best candidate.

Nothing is counted in closures or objects: a thread read back from a transcript says the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from astra_chat.agents.turns import (
    Analysis,
    Approval,
    Kernel,
    Payload,
    Plan,
    RoleName,
    RunRequest,
    Speaker,
    TestSuite,
)
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.types import (
    BuildReport,
    Built,
    Case,
    Correct,
    Evaluation,
    Outcome,
    Profile,
    Timed,
    Value,
)

P = TypeVar("P", bound=Payload)


@dataclass(frozen=True)
class Turn:
    """One turn of the chat."""

    speaker: Speaker
    payload: Payload

    @property
    def kind(self) -> str:
        """What is said, in one word."""
        match self.payload:
            case BuildReport():
                return "build"
            case Evaluation():
                return "evaluation"
            case payload:
                return payload.kind


Thread = Sequence[Turn]


class Limits(Value):
    """How long a chat may go on."""

    rounds: int = 5
    repairs: int = 2
    """Kernels of the fixer in one round."""
    confirmations: int = 3
    """Winners that are evaluated once more at the end, the next best where one does not hold;
    none in runs of before there were any."""
    mutants: int = 0
    """Seeded bugs of the baseline by which the tester's cases are scored; 0: they are not."""
    stop_at_percent: float | None = None
    """The chat ends once the best candidate reaches this share of the physical limit."""
    patience: int | None = None
    """The chat ends after this many rounds in a row without a new best."""


class Position(Value):
    """Where in the chat a role speaks; a scripted answer is found by it."""

    round: int
    attempt: int
    """Tester: which of its turns. Coder: which kernel of the plan. Fixer: which repair of the
    round. Selector: which choice. Single: 0 for a plan, then its kernels. Else 1."""


@dataclass(frozen=True)
class Attempt:
    """A candidate of a round and what became of it."""

    speaker: Speaker
    kernel: Kernel
    build: BuildReport | None
    evaluation: Evaluation | None
    rejected: str | None = None
    """Why the human did not want it run or accepted."""
    replaced: bool = False
    """The human gave an edit instead."""

    @property
    def passed(self) -> bool:
        done = self.evaluation is not None and isinstance(self.evaluation.outcome, Timed | Correct)
        return done and not self.replaced


@dataclass(frozen=True)
class Round:
    """A plan and the candidates that came of it."""

    number: int
    plan: Plan
    attempts: tuple[Attempt, ...]


def turns_of(thread: Thread, kind: type[P]) -> list[P]:
    """All payloads of one class, in order."""
    return [turn.payload for turn in thread if isinstance(turn.payload, kind)]


def rounds_begun(thread: Thread) -> int:
    return len(turns_of(thread, Plan))


def since_plan(thread: Thread) -> Thread:
    """The turns of the round that is under way, its plan first; all turns before the first plan."""
    starts = [i for i, turn in enumerate(thread) if isinstance(turn.payload, Plan)]
    return thread[starts[-1] :] if starts else thread


def kernels_of(thread: Thread, speaker: Speaker) -> int:
    """Kernels that a speaker has given in this round."""
    return sum(
        turn.speaker == speaker and isinstance(turn.payload, Kernel) for turn in since_plan(thread)
    )


def repairs(thread: Thread) -> int:
    """Kernels of this round that repair one."""
    return kernels_of(thread, "fixer") + max(0, kernels_of(thread, "single") - 1)


def position(role: RoleName | str, thread: Thread) -> Position:
    """Where `role` would speak if it spoke now."""
    begun = rounds_begun(thread)
    if role == "tester":
        spoken = sum(turn.speaker == "tester" for turn in thread)
        return Position(round=begun, attempt=spoken + 1)
    if role == "planner":
        return Position(round=begun + 1, attempt=1)
    if role == "fixer":
        return Position(round=begun, attempt=repairs(thread) + 1)
    if role == "selector":
        unsure = sum(analysis.next == "unsure" for analysis in turns_of(thread, Analysis))
        return Position(round=begun, attempt=unsure)
    if role == "coder":
        return Position(round=begun, attempt=kernels_of(thread, "coder") + 1)
    return Position(round=begun, attempt=1)


def extra_cases(thread: Thread) -> tuple[Case, ...]:
    """The tester's cases so far, each once, without those that proved to kill no seeded bug."""
    kept: dict[str, Case] = {}
    for turn in thread:
        match turn.payload:
            case TestSuite() as suite:
                kept |= {case.model_dump_json(): case for case in proposed(suite)}
            case CaseScores() as scores:
                for case in scores.dropped:
                    kept.pop(case.model_dump_json(), None)
    return tuple(kept.values())


def proposed(suite: TestSuite) -> tuple[Case, ...]:
    return tuple(test.case() for test in suite.cases)


def to_score(thread: Thread, limits: Limits) -> tuple[Case, ...]:
    """The tester's cases that wait for their score: those of its turn, the last one."""
    said = thread[-1].payload
    return proposed(said) if limits.mutants and isinstance(said, TestSuite) else ()


def baseline(thread: Thread) -> Evaluation | None:
    """The baseline judged against itself: the first evaluation of every chat."""
    return next(iter(turns_of(thread, Evaluation)), None)


def source_of(thread: Thread, candidate: str) -> str | None:
    """Source of a candidate that was proposed in this chat; None for the baseline."""
    kernels = turns_of(thread, Kernel)
    return next((k.source for k in kernels if k.candidate == candidate), None)


def best(thread: Thread) -> tuple[Evaluation, Timed] | None:
    """The accepted candidate with the highest ratio over the baseline, the first of equals.

    What the human rejected, or has not decided on, is not accepted. Where a candidate was evaluated
    once more to confirm it, that evaluation alone counts.
    """
    found = max(counted(thread).items(), key=lambda item: item[1][1].ratio, default=None)
    return found[1] if found else None


Counted = Mapping[str, tuple[Evaluation, Timed]]


def counted(thread: Thread) -> Counted:
    """What counts as accepted, by candidate, in the order of the search."""
    said = unconfirmed(thread)
    again = {e.candidate: e for e in turns_of(thread, Evaluation) if e.confirms}
    found: dict[str, tuple[Evaluation, Timed]] = {}
    for index in _evaluations(said)[1:]:
        first = said[index].payload
        assert isinstance(first, Evaluation)
        evaluation = again.get(first.candidate, first)
        if not (accepted(first) and (timed := accepted(evaluation))):
            continue
        if not _withheld(said, index):
            before = found.get(first.candidate)
            if before is None or timed.ratio > before[1].ratio:
                found[first.candidate] = (evaluation, timed)
    return found


def accepted(evaluation: Evaluation) -> Timed | None:
    outcome = evaluation.outcome
    return outcome if isinstance(outcome, Timed) and outcome.verdict == "accepted" else None


def unconfirmed(thread: Thread) -> Thread:
    """The search itself: the thread without the evaluations that confirm a winner.

    One that follows at once on what it confirms takes its place: it knows more.
    """
    search: list[Turn] = []
    for index, turn in enumerate(thread):
        if not confirms(turn.payload):
            search.append(turn)
        elif confirms_last(thread[max(0, index - 1) : index + 1]):
            assert isinstance(turn.payload, Evaluation)
            search[-1] = Turn("executor", turn.payload.model_copy(update={"confirms": False}))
    return search


def confirms(payload: Payload) -> bool:
    return isinstance(payload, Evaluation) and payload.confirms


def confirms_last(thread: Thread) -> bool:
    """Whether the last turn confirms what the turn before it found."""
    pair = [turn.payload for turn in thread[-2:] if isinstance(turn.payload, Evaluation)]
    names = {evaluation.candidate for evaluation in pair}
    return [evaluation.confirms for evaluation in pair] == [False, True] and len(names) == 1


def _evaluations(thread: Thread) -> list[int]:
    return [i for i, turn in enumerate(thread) if isinstance(turn.payload, Evaluation)]


def _withheld(thread: Thread, index: int) -> bool:
    """Whether the human has anything but approved of what was found in this turn."""
    if index + 1 == len(thread):
        return asks(thread)
    after = thread[index + 1]
    approved = isinstance(after.payload, Approval) and after.payload.decision != "reject"
    return after.speaker == "human" and not approved


def asks(thread: Thread) -> bool:
    """Whether a human wants to decide from here on."""
    wanted = any(asked.approval for asked in turns_of(thread, RunRequest))
    return wanted and all(said.decision != "approve_all" for said in turns_of(thread, Approval))


def last_evaluation(thread: Thread) -> Evaluation | None:
    """Of the search: none that confirms its winner."""
    evaluations = turns_of(unconfirmed(thread), Evaluation)
    return evaluations[-1] if evaluations else None


def profile_of(evaluation: Evaluation | None) -> Profile | None:
    outcome: Outcome | None = evaluation.outcome if evaluation else None
    return outcome.profile if isinstance(outcome, Timed) else None


def failed(report: BuildReport) -> bool:
    return not isinstance(report.result, Built)


def rounds(thread: Thread) -> list[Round]:
    """Every round so far with its candidates and what became of them."""
    thread = unconfirmed(thread)
    starts = [i for i, turn in enumerate(thread) if isinstance(turn.payload, Plan)]
    ends = [*starts, len(thread)][1:]
    found = []
    for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        plan = thread[start].payload
        assert isinstance(plan, Plan)
        found.append(Round(number, plan, _attempts(thread[start:end])))
    return found


def _attempts(turns: Thread) -> tuple[Attempt, ...]:
    attempts: list[Attempt] = []
    asked = ""
    for turn in turns:
        match turn.payload:
            case Kernel() as kernel:
                if turn.speaker == "human":
                    _mark(attempts, asked, replaced=True)
                attempts.append(Attempt(turn.speaker, kernel, None, None))
            case BuildReport(candidate=asked) as report:
                _mark(attempts, asked, build=report)
            case Evaluation(candidate=asked) as evaluation:
                _mark(attempts, asked, evaluation=evaluation)
            case Approval(decision="reject", reason=reason, candidate=asked):
                _mark(attempts, asked, rejected=reason)
    return tuple(attempts)


def _mark(attempts: list[Attempt], candidate: str, **found: Any) -> None:
    """Note what came of the candidate; of one given twice, of the first that lacks it."""
    same = [i for i, attempt in enumerate(attempts) if attempt.kernel.candidate == candidate]
    lacking = [i for i in same if all(not getattr(attempts[i], name) for name in found)]
    if attempts:
        index = next(iter([*lacking, *same[-1:], len(attempts) - 1]))
        attempts[index] = replace(attempts[index], **found)


def unbuilt(thread: Thread) -> list[Kernel]:
    """The round's kernels that were not built."""
    return [
        attempt.kernel
        for attempt in _under_way(thread)
        if attempt.build is None and attempt.evaluation is None
    ]


def unrun(thread: Thread) -> Kernel | None:
    """The round's first kernel that was built and may be run, but was not."""
    for attempt in _under_way(thread):
        waits = attempt.evaluation is None and attempt.rejected is None and not attempt.replaced
        if waits and attempt.build is not None and not failed(attempt.build):
            return attempt.kernel
    return None


def round_passed(thread: Thread) -> bool:
    """Whether a kernel of the round under way was found right."""
    return any(attempt.passed for attempt in _under_way(thread))


def _under_way(thread: Thread) -> tuple[Attempt, ...]:
    return _attempts(since_plan(unconfirmed(thread))) if rounds_begun(thread) else ()
