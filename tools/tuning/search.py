"""Tuning: the virtual GPU ranks the points of a space, and the judge measures the first of them.

That order found more with fewer measurements than tuners that know the measured times only, where
the estimate orders candidates well. The best point is confirmed on fresh inputs, as any winner; on
the virtual GPU all of it is an estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import ConfigDict, Field

from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.tuning.ranking import estimated_ratios
from astra_chat.tools.tuning.space import Point, Space
from astra_chat.tools.types import Timed, Value, candidate_id

Tell = Callable[[str, int, int], None]
"""Called with what is being done, how many are done, and of how many."""


class TunedPoint(Value):
    """A point of the space and what was found about it."""

    values: dict[str, int]
    candidate: str
    estimated_ratio: float | None
    """Speed over the baseline's on the virtual GPU; None where it failed there."""
    failed: str = ""
    """Kind of the outcome that ended its ranking."""
    evaluation: Evaluation | None = None
    """By the judge; None where it came too late in the order."""

    @property
    def ratio(self) -> float | None:
        """Over the baseline by the judge, of a correct kernel."""
        outcome = self.evaluation and self.evaluation.outcome
        return outcome.ratio if isinstance(outcome, Timed) else None


class TuningReport(Value):
    """The result of tuning a kernel's constants."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/tuning/1"] = Field("astra-chat/tuning/1", alias="schema")
    task: str
    device: str
    combinations: int
    """Of values, before the relations."""
    points: tuple[TunedPoint, ...]
    """Those that were ranked, the judged ones first, the best of them at the front."""
    start: dict[str, int]
    """What the source held."""
    start_ratio: float | None
    best: dict[str, int] = Field(default_factory=dict)
    """Empty where no judged point is correct."""
    source: str = ""
    confirmation: Evaluation | None = None
    """Of the best point, on fresh inputs."""


def tune(
    judge: Judge,
    space: Space,
    *,
    most_points: int,
    judged: int,
    tell: Tell = lambda *_: None,
) -> TuningReport:
    """Rank at most `most_points` of the space, judge the first `judged` of them and the starting
    point, and confirm the best. Raises what the judge raises."""
    points = space.drawn(most_points, judge.entropy.cases.of("tuning").random())
    sources = [space.at(point) for point in points]
    ranks = estimated_ratios(
        judge.task, virtual_device(judge.device.spec), judge.baseline, sources, judge.weighted,
        judge.entropy.cases.of("ranking"), judge.stop,
        lambda done: tell("ranked on the virtual GPU", done, len(points)),
    )  # fmt: skip
    order = sorted(range(len(points)), key=lambda i: (-_rank(ranks[i]), i))
    chosen = [i for i in order if isinstance(ranks[i], float)][:judged]
    evaluations = dict[int, Evaluation]()
    to_judge = list(dict.fromkeys([0, *chosen]))
    for index in to_judge:
        tell("judged", len(evaluations), len(to_judge))
        evaluations[index] = judge.evaluate(sources[index])
    made = {i: _point(points[i], sources[i], ranks[i], evaluations.get(i)) for i in order}
    best = max(evaluations, key=lambda i: (made[i].ratio or 0.0, -i))
    confirmed = judge.evaluate(sources[best], fresh_seeds=True) if made[best].ratio else None
    judged_first = sorted(made.values(), key=lambda p: (-(p.ratio or 0.0), p.evaluation is None))
    return TuningReport(
        schema="astra-chat/tuning/1", task=judge.task.name, device=judge.device.name,
        combinations=space.combinations, points=tuple(judged_first), start=dict(points[0]),
        start_ratio=made[0].ratio, best=dict(points[best]) if confirmed else {},
        source=sources[best] if confirmed else "", confirmation=confirmed,
    )  # fmt: skip


def _rank(ratio: float | str) -> float:
    return ratio if isinstance(ratio, float) else 0.0


def _point(
    values: Point, source: str, rank: float | str, evaluation: Evaluation | None
) -> TunedPoint:
    return TunedPoint(
        values=dict(values), candidate=candidate_id(source),
        estimated_ratio=rank if isinstance(rank, float) else None,
        failed="" if isinstance(rank, float) else rank, evaluation=evaluation,
    )  # fmt: skip
