"""The course of a search: the best ratio over the baseline after each round, and all that was
tried on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from astra_chat.agents.rounds import Attempt, failed
from astra_chat.agents.run_state import RunState, states
from astra_chat.agents.turns import Thread
from astra_chat.tools.descriptions import verdict
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.timing.intervals import over_all
from astra_chat.tools.types import Timed


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
    *_, state = every = list(states(thread))
    attempts = [(one.number, attempt) for one in state.rounds for attempt in one.attempts]
    return Course(
        rounds=len(state.rounds),
        best=_best_by_round(every),
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
        confirmed=_confirmed(state),
    )


def _best_by_round(every: Sequence[RunState]) -> tuple[Point, ...]:
    ends = {len(state.rounds): state.best_of_search for state in every}  # the last of each round
    return tuple(_point(number, *best) for number, best in ends.items() if number and best)


def _confirmed(state: RunState) -> Point | None:
    best = state.best
    return _point(len(state.rounds), *best) if best is not None and best[0].confirms else None


def _point(number: int, evaluation: Evaluation, timed: Timed) -> Point:
    low, high = over_all(timed)
    return Point(number, evaluation.candidate, timed.ratio, low, high, timed.verdict)


def _failed(attempt: Attempt) -> str:
    """The verdict on what was not right; "" where it was, or is not known."""
    if attempt.evaluation is not None:
        return "" if attempt.passed else verdict(attempt.evaluation.outcome)
    if attempt.build is not None and failed(attempt.build):
        return verdict(attempt.build.result)
    return ""
