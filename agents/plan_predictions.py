"""The planner's predictions beside what came of them: a ledger read off the rounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from astra_chat.agents.rounds import Round, failed
from astra_chat.agents.turns import Direction, Plan
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.types import Timed, Value

SAME = 0.01
"""A metric, or a speed, that changes by less has not moved."""


class Prediction(Value):
    """One plan's, and what the best right kernel of its round came to over the plan's parent."""

    round: int
    title: str
    metric: str
    moves: Direction
    predicted_ratio: float
    """Over the parent."""
    found_ratio: float | None
    """None: no kernel of the plan was right."""
    before: float | None = None
    """The metric in the parent's profile; None where that has no such metric."""
    after: float | None = None

    @property
    def moved(self) -> Direction:
        """How the metric moved."""
        if self.before is None or self.after is None:
            return "unsaid"
        change = self.after - self.before
        if abs(change) <= SAME * abs(self.before):
            return "stays"
        return "up" if change > 0 else "down"

    @property
    def log_error(self) -> float | None:
        """|log2| of found over predicted; 1 is a factor of 2."""
        if self.found_ratio is None or self.found_ratio <= 0:
            return None
        return abs(math.log2(self.found_ratio / self.predicted_ratio))

    @property
    def right_way(self) -> bool:
        """Whether it got faster, slower or neither as was predicted."""
        return self.found_ratio is not None and _way(self.found_ratio) == _way(self.predicted_ratio)


class Score(Value):
    """How good predictions were so far."""

    plans: int
    """That were judged."""
    right_kernels: int
    """Plans of which a right kernel came."""
    right_way: int
    """Of those, plans that moved the speed the way that was predicted."""
    metrics_named: int
    """Of those, plans that said which way a profiled metric moves."""
    metrics_right: int
    median_factor: float | None
    """By what factor the predicted ratio was off, in the median."""

    @property
    def words(self) -> str:
        if not self.plans:
            return "no prediction was judged yet"
        parts = [f"{self.right_kernels} of {self.plans} plans came to a right kernel"]
        if self.right_kernels:
            parts.append(f"{self.right_way} of {self.right_kernels} moved the speed as predicted")
        if self.median_factor is not None:
            parts.append(f"the predicted ratio was off by a factor of {self.median_factor:.2f}"
                         " in the median")  # fmt: skip
        if self.metrics_named:
            parts.append(
                f"{self.metrics_right} of {self.metrics_named} named metrics moved as predicted"
            )
        return "; ".join(parts)


def predictions(rounds: Sequence[Round]) -> list[Prediction]:
    """Of every round whose kernels were judged, in order.

    A kernel that waits for its run, or that the human did not want run, says nothing of its plan.
    """
    return [
        _judged(one, one.parent)
        for one in rounds
        if one.parent
        and (any(attempt.evaluation for attempt in one.attempts) or _came_to_nothing(one))
    ]


def score(judged: list[Prediction]) -> Score:
    right = [one for one in judged if one.found_ratio is not None]
    named = [one for one in right if one.moves != "unsaid" and one.moved != "unsaid"]
    errors = [error for one in right if (error := one.log_error) is not None]
    return Score(
        plans=len(judged),
        right_kernels=len(right),
        right_way=sum(one.right_way for one in right),
        metrics_named=len(named),
        metrics_right=sum(one.moves == one.moved for one in named),
        median_factor=2 ** statistics.median(errors) if errors else None,
    )


def _came_to_nothing(one: Round) -> bool:
    """Whether kernels were built, and none of them builds."""
    builds = [attempt.build for attempt in one.attempts if attempt.build is not None]
    return bool(builds) and all(failed(build) for build in builds)


def _judged(one: Round, parent: Evaluation) -> Prediction:
    timed = [
        attempt.evaluation.outcome
        for attempt in one.attempts
        if attempt.evaluation and isinstance(attempt.evaluation.outcome, Timed)
    ]
    best = max(timed, key=lambda outcome: outcome.ratio, default=None)
    was = parent.outcome if isinstance(parent.outcome, Timed) else None
    return Prediction(
        round=one.number,
        title=one.plan.title,
        metric=one.plan.metric,
        moves=one.plan.moves,
        predicted_ratio=one.plan.predicted_ratio,
        found_ratio=best.ratio / was.ratio if best and was else None,
        before=_metric(was, one.plan),
        after=_metric(best, one.plan),
    )


def _metric(timed: Timed | None, plan: Plan) -> float | None:
    found = timed.profile.metric(plan.metric) if timed else None
    return found.value if found else None


def _way(ratio: float) -> int:
    return 0 if abs(ratio - 1) <= SAME else 1 if ratio > 1 else -1
