"""The course of a search: the best ratio over the baseline after each round, and all that was
tried on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from astra_chat.agents import run_state
from astra_chat.agents.run_state import Attempt, Thread
from astra_chat.agents.turns import Plan
from astra_chat.tools.descriptions import verdict
from astra_chat.tools.timing.intervals import over_all
from astra_chat.tools.types import Evaluation, Timed


@dataclass(frozen=True)
class Point:
    """A timed candidate. Ratios are over the baseline, all cases weighted."""

    round: int
    candidate: str
    ratio: float
    low: float
    high: float
    verdict: str

    @property
    def words(self) -> str:
        return f"{self.ratio:.2f}x ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class Failure:
    """A candidate that was not right, or did not build."""

    round: int
    candidate: str
    verdict: str


@dataclass(frozen=True)
class Course:
    rounds: int
    best: tuple[Point, ...]
    """The best so far at the end of each round, from the first round with a gain on; `round` is
    that round, not the one that found it. Figures of the search."""
    tried: tuple[Point, ...]
    failed: tuple[Failure, ...]
    confirmed: Point | None
    """The winner on fresh seeds, after the last round."""


def course(thread: Thread) -> Course:
    """Of a thread, whole or cut off; without rounds where there is no plan yet."""
    rounds = run_state.rounds(thread)
    attempts = [(one.number, attempt) for one in rounds for attempt in one.attempts]
    return Course(
        rounds=len(rounds),
        best=_best_by_round(thread),
        tried=tuple(
            _point(number, attempt.evaluation, attempt.evaluation.outcome)
            for number, attempt in attempts
            if attempt.evaluation and isinstance(attempt.evaluation.outcome, Timed)
        ),
        failed=tuple(
            Failure(number, attempt.kernel.candidate, word)
            for number, attempt in attempts
            if (word := _failed(attempt))
        ),
        confirmed=_confirmed(thread, len(rounds)),
    )


def _best_by_round(thread: Thread) -> tuple[Point, ...]:
    search = run_state.unconfirmed(thread)
    starts = [i for i, turn in enumerate(search) if isinstance(turn.payload, Plan)]
    ends = [*starts[1:], len(search)] if starts else []
    found: list[Point] = []
    for number, end in enumerate(ends, 1):
        best = run_state.best(search[:end])
        if best is not None:
            found.append(_point(number, *best))
    return tuple(found)


def _confirmed(thread: Sequence[run_state.Turn], rounds: int) -> Point | None:
    best = run_state.best(thread)
    return _point(rounds, *best) if best is not None and best[0].confirms else None


def _point(number: int, evaluation: Evaluation, timed: Timed) -> Point:
    low, high = over_all(timed)
    return Point(number, evaluation.candidate, timed.ratio, low, high, timed.verdict)


def _failed(attempt: Attempt) -> str:
    """The verdict on what was not right; "" where it was, or is not known."""
    if attempt.evaluation is not None:
        return "" if attempt.passed else verdict(attempt.evaluation.outcome)
    if attempt.build is not None and run_state.failed(attempt.build):
        return verdict(attempt.build.result)
    return ""
