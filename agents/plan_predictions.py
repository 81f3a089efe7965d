"""The planner's predictions compared with the results of its rounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from astra_chat.agents.rounds import Round, failed
from astra_chat.agents.turns import Direction, Plan
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.profiling.metrics import profile_on
from astra_chat.tools.timing.comparison import ESTIMATES, resolution
from astra_chat.tools.types import Case, Metric, Timed, Value

UNCHANGED = 0.01
"""A relative change of a metric up to this counts as none."""


class Prediction(Value):
    """A plan's prediction, and the result of the best correct kernel of its round."""

    round: int
    title: str
    metric: str
    moves: Direction
    predicted_ratio: float
    """Speed over the parent that the plan predicts."""
    actual_ratio: float | None
    """Speed over the parent of the round's best correct kernel; None: no kernel of the plan was
    correct."""
    before: float | None = None
    """The metric in the parent's profile; None if that has no such metric."""
    after: float | None = None
    case: str = ""
    """The case that the plan named; "" for that of greatest weight."""
    resolution: float = ESTIMATES
    """The least ratio that is no tie."""

    @property
    def moved(self) -> Direction:
        """How the metric changed."""
        if self.before is None or self.after is None:
            return "unsaid"
        change = self.after - self.before
        if abs(change) <= UNCHANGED * abs(self.before):
            return "stays"
        return "up" if change > 0 else "down"

    @property
    def log_error(self) -> float | None:
        """|log2| of actual over predicted; 1 is a factor of 2."""
        if self.actual_ratio is None or self.actual_ratio <= 0:
            return None
        return abs(math.log2(self.actual_ratio / self.predicted_ratio))

    @property
    def direction_correct(self) -> bool:
        """Whether the kernel is faster, slower or a tie, as predicted."""
        if self.actual_ratio is None:
            return False
        return self._direction(self.actual_ratio) == self._direction(self.predicted_ratio)

    def _direction(self, ratio: float) -> int:
        return (ratio >= self.resolution) - (ratio <= 1 / self.resolution)


class PredictionScore(Value):
    """How good the predictions were so far."""

    plans: int
    """Plans whose kernels were judged."""
    correct_kernels: int
    """Plans that produced a correct kernel."""
    direction_correct: int
    """Plans with a correct kernel that changed the speed in the predicted direction."""
    metrics_named: int
    """Plans with a correct kernel that predicted the direction of a profiled metric."""
    metrics_correct: int
    """Plans with a correct kernel that predicted the direction of a profiled metric correctly."""
    median_factor: float | None
    """Median factor between predicted and actual ratio."""

    @property
    def text(self) -> str:
        if not self.plans:
            return "no predictions to compare yet"
        parts = [f"{self.correct_kernels} of {self.plans} plans produced a correct kernel"]
        if self.correct_kernels:
            parts.append(
                f"{self.direction_correct} of {self.correct_kernels} were faster or slower as "
                "predicted"
            )
        if self.median_factor is not None:
            parts.append(f"predicted ratios are off by a median factor of {self.median_factor:.2f}")
        if self.metrics_named:
            parts.append(
                f"{self.metrics_correct} of {self.metrics_named} named metrics changed as predicted"
            )
        return "; ".join(parts)


def predictions(rounds: Sequence[Round]) -> list[Prediction]:
    """Returns the predictions of every round whose kernels were judged, in order.

    A kernel that did not run yet, or that the human rejected before, tells nothing of its plan.
    """
    return [
        _judged(one, one.parent)
        for one in rounds
        if one.parent and (any(attempt.evaluation for attempt in one.of_plan) or _none_built(one))
    ]


def score(judged: list[Prediction]) -> PredictionScore:
    correct = [one for one in judged if one.actual_ratio is not None]
    named = [one for one in correct if one.moves != "unsaid" and one.moved != "unsaid"]
    errors = [error for one in correct if (error := one.log_error) is not None]
    return PredictionScore(
        plans=len(judged),
        correct_kernels=len(correct),
        direction_correct=sum(one.direction_correct for one in correct),
        metrics_named=len(named),
        metrics_correct=sum(one.moves == one.moved for one in named),
        median_factor=2 ** statistics.median(errors) if errors else None,
    )


def _none_built(one: Round) -> bool:
    """Whether all builds of the round failed, and there was one."""
    builds = [attempt.build for attempt in one.of_plan if attempt.build is not None]
    return bool(builds) and all(failed(build) for build in builds)


def _judged(one: Round, parent: Evaluation) -> Prediction:
    timed = [
        attempt.evaluation.outcome
        for attempt in one.of_plan
        if attempt.refused is None
        and attempt.evaluation
        and isinstance(attempt.evaluation.outcome, Timed)
    ]
    best = max(timed, key=lambda outcome: outcome.ratio, default=None)
    was = parent.outcome if isinstance(parent.outcome, Timed) else None
    return Prediction(
        round=one.number,
        title=one.plan.title,
        metric=one.plan.metric,
        moves=one.plan.moves,
        predicted_ratio=one.plan.predicted_ratio,
        actual_ratio=best.ratio / was.ratio if best and was else None,
        before=_value(metric_of(was, one.plan)),
        after=_value(metric_of(best, one.plan)),
        case=one.plan.case,
        resolution=resolution(best, was) if best and was else ESTIMATES,
    )


def _value(metric: Metric | None) -> float | None:
    return metric.value if metric else None


def metric_of(timed: Timed | None, plan: Plan) -> Metric | None:
    """Returns the plan's metric on the case that the plan names; None where it was not profiled."""
    if timed is None:
        return None
    case: Case | None = timed.profile.case
    if plan.case:
        case = next((time.case for time in timed.cases if time.case.named == plan.case), None)
    profile = profile_on(timed, case) if case else None
    return profile.metric(plan.metric) if profile else None
