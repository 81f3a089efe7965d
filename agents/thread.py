"""Facts of a chat, derived from its typed thread alone: rounds, repairs, cases, best candidate.

Nothing is counted in closures or objects: a thread read back from a transcript says the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from astra_chat.agents.payloads import Analysis, Kernel, Payload, Plan, RoleName, Speaker, TestSuite
from astra_chat.tools.types import (
    BuildReport,
    Built,
    Case,
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


Thread = Sequence[Turn]


class Limits(Value):
    """How long a chat may go on."""

    rounds: int = 5
    repairs: int = 2
    """Kernels of the fixer in one round."""


class Position(Value):
    """Where in the chat a role speaks; a scripted answer is found by it."""

    round: int
    attempt: int
    """Tester: which of its turns. Fixer: which repair of the round. Selector: which choice.
    Else 1."""


@dataclass(frozen=True)
class Attempt:
    """A candidate of a round and what became of it."""

    speaker: Speaker
    kernel: Kernel
    build: BuildReport | None
    evaluation: Evaluation | None


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


def repairs(thread: Thread) -> int:
    """Kernels that the fixer has given in this round."""
    return sum(
        turn.speaker == "fixer" and isinstance(turn.payload, Kernel) for turn in since_plan(thread)
    )


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
    return Position(round=begun, attempt=1)


def extra_cases(thread: Thread) -> tuple[Case, ...]:
    """The tester's cases so far, each once."""
    cases = [test.case() for suite in turns_of(thread, TestSuite) for test in suite.cases]
    return tuple({case.model_dump_json(): case for case in cases}.values())


def baseline(thread: Thread) -> Evaluation | None:
    """The baseline judged against itself: the first evaluation of every chat."""
    return next(iter(turns_of(thread, Evaluation)), None)


def source_of(thread: Thread, candidate: str) -> str | None:
    """Source of a candidate that was proposed in this chat; None for the baseline."""
    kernels = turns_of(thread, Kernel)
    return next((k.source for k in kernels if k.candidate == candidate), None)


def best(thread: Thread) -> tuple[Evaluation, Timed] | None:
    """The accepted candidate with the highest ratio over the baseline, the first of equals."""
    found: tuple[Evaluation, Timed] | None = None
    for evaluation in turns_of(thread, Evaluation)[1:]:
        outcome = evaluation.outcome
        if not isinstance(outcome, Timed) or outcome.verdict != "accepted":
            continue
        if found is None or outcome.ratio > found[1].ratio:
            found = (evaluation, outcome)
    return found


def parent(thread: Thread) -> Evaluation | None:
    """What the next plan changes: the best candidate, else the baseline."""
    found = best(thread)
    return found[0] if found else baseline(thread)


def last_kernel(thread: Thread) -> Kernel | None:
    kernels = turns_of(thread, Kernel)
    return kernels[-1] if kernels else None


def last_evaluation(thread: Thread) -> Evaluation | None:
    evaluations = turns_of(thread, Evaluation)
    return evaluations[-1] if evaluations else None


def profile_of(evaluation: Evaluation | None) -> Profile | None:
    outcome: Outcome | None = evaluation.outcome if evaluation else None
    return outcome.profile if isinstance(outcome, Timed) else None


def failed(report: BuildReport) -> bool:
    return not isinstance(report.result, Built)


def rounds(thread: Thread) -> list[Round]:
    """Every round so far with its candidates and what became of them."""
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
    for turn in turns:
        payload = turn.payload
        if isinstance(payload, Kernel):
            attempts.append(Attempt(turn.speaker, payload, None, None))
        elif isinstance(payload, BuildReport) and attempts:
            last = attempts[-1]
            attempts[-1] = Attempt(last.speaker, last.kernel, payload, None)
        elif isinstance(payload, Evaluation) and attempts:
            last = attempts[-1]
            attempts[-1] = Attempt(last.speaker, last.kernel, last.build, payload)
    return tuple(attempts)
