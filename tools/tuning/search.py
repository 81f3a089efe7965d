"""Tuning: the virtual GPU ranks the points of a space, and the judge measures the first of them.

That order found more with fewer measurements than tuners that know the measured times only, where
the estimate orders candidates well. On a GPU successive halving decides which of the first are
judged in full. On the virtual GPU there is nothing to halve: an estimate has no noise, and the
ranking has made it. The best point is confirmed on fresh inputs, as any winner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import ConfigDict, Field

from astra_chat.tools.check.hidden_cases import Weighted
from astra_chat.tools.descriptions import describe
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.expressions import assignments
from astra_chat.tools.timing.best import best_of
from astra_chat.tools.timing.verdict import judge_times
from astra_chat.tools.tuning.by_shape import Estimates, table_for
from astra_chat.tools.tuning.halving import halved
from astra_chat.tools.tuning.halving_rounds import Halving
from astra_chat.tools.tuning.ranking import estimated_by_case
from astra_chat.tools.tuning.shapes import ShapeTable
from astra_chat.tools.tuning.space import Point, Space
from astra_chat.tools.types import DeviceKind, Timed, Value, candidate_id

JUDGED: dict[DeviceKind, int] = {"cuda": 16, "virtual": 8}
"""Points that the judge measures where nothing else is said: by halving, or each in full."""
Tell = Callable[[str, int, int], None]
"""Called with what is being done, how many are done, and of how many."""


class TunedPoint(Value):
    """A point of the space and what was found about it."""

    values: dict[str, int]
    candidate: str
    estimated_ratio: float | None
    """Speedup over the baseline on the virtual GPU; None if it failed there."""
    failed: str = ""
    """Kind of the outcome that ended its ranking."""
    evaluation: Evaluation | None = None
    """The judge's evaluation; None where it came too late in the order, or halving dropped it."""

    @property
    def ratio(self) -> float | None:
        """Speed over the baseline's by the judge; None unless the kernel was timed."""
        outcome = self.evaluation and self.evaluation.outcome
        return outcome.ratio if isinstance(outcome, Timed) else None


class TuningReport(Value):
    """The result of tuning a kernel's constants."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/tuning/1"] = Field("astra-chat/tuning/1", alias="schema")
    task: str
    device: str
    combinations: int
    """Number of combinations of values, before the relations."""
    points: tuple[TunedPoint, ...]
    """Points that were ranked, the judged ones first, the best of them at the front."""
    start: dict[str, int]
    """Values that the source held."""
    start_ratio: float | None
    halving: Halving | None = None
    """Which of the first in the order went on to be judged; None where each of them was."""
    best: dict[str, int] = Field(default_factory=dict)
    """Values of the best point; empty where no judged point is correct."""
    source: str = ""
    """Source of the best point, or of the table."""
    by_shape: ShapeTable | None = None
    """A choice by shape, where one was asked for and a rule was found; taken or not."""
    confirmation: Evaluation | None = None
    """Evaluation of `source`, on fresh inputs."""


def tune(
    judge: Judge,
    space: Space,
    *,
    most_points: int,
    judged: int | None = None,
    halving: bool | None = None,
    by_shape: bool = False,
    tell: Tell = lambda *_: None,
) -> TuningReport:
    """Rank at most `most_points` of the space, judge the first `judged` of them (JUDGED) and the
    starting point, and confirm the best. `halving`: whether most of them are only timed; None: on a
    GPU. `by_shape`: whether two points may share the shapes, where that gains on shapes held out.
    Raises what the judge raises."""
    ranked = _ranked(judge, space, most_points, tell)
    chosen = ranked.good[: judged or JUDGED[judge.device.kind]]
    halves, kept = None, len(chosen)
    if judge.device.kind == "cuda" if halving is None else halving:
        halves = _halved(judge, ranked.sources, chosen, tell)
        places = {candidate_id(source): i for i, source in enumerate(ranked.sources)}
        chosen, kept = [places[name] for name in halves.order], len(halves.left)
    evaluations = _judged(judge, ranked, chosen, kept, tell)
    made = {i: _point(ranked, i, evaluations.get(i)) for i in ranked.order}
    best = _best(evaluations)
    winner = _winner(judge, ranked, best, by_shape, tell) if made[best].ratio else None
    judged_first = sorted(made.values(), key=lambda p: (-(p.ratio or 0.0), p.evaluation is None))
    return TuningReport(
        schema="astra-chat/tuning/1",
        task=judge.task.name,
        device=judge.device.name,
        combinations=space.combinations,
        points=tuple(judged_first),
        start=dict(ranked.points[0]),
        start_ratio=made[0].ratio,
        halving=halves,
        best=dict(ranked.points[best]) if winner else {},
        source=winner.source if winner else "",
        by_shape=winner.table if winner else None,
        confirmation=winner.confirmation if winner else None,
    )


@dataclass(frozen=True, kw_only=True)
class _Ranked:
    """Points of a space in the order in which they were drawn, with their estimates."""

    points: Sequence[Point]
    sources: Sequence[str]
    cases: Weighted
    """Cases that were estimated."""
    estimates: Estimates
    ranks: Sequence[float | str]
    """Speed of each over the baseline's, or the kind of the outcome that ended it."""

    @property
    def order(self) -> list[int]:
        """The points' places, the fastest first, those that failed last."""
        return sorted(range(len(self.points)), key=lambda i: (-_rank(self.ranks[i]), i))

    @property
    def good(self) -> list[int]:
        """Those that did not fail, the fastest first."""
        return [i for i in self.order if isinstance(self.ranks[i], float)]


def _ranked(judge: Judge, space: Space, most_points: int, tell: Tell) -> _Ranked:
    """Draw points and estimate them on the virtual GPU."""
    points = space.drawn(most_points, judge.entropy.cases.of("tuning").random())
    sources = [space.at(point) for point in points]
    cases = judge.task.demo if judge.device.kind == "cuda" else judge.weighted
    estimates = estimated_by_case(
        task=judge.task,
        device=virtual_device(judge.device.spec),
        baseline=judge.baseline,
        sources=sources,
        weighted=cases,
        seed=judge.entropy.cases.of("ranking"),
        stop=judge.stop,
        on_done=lambda done: tell("ranked on the virtual GPU", done, len(points)),
    )
    ranks = [one if isinstance(one, str) else judge_times(one)[0] for one in estimates]
    return _Ranked(points=points, sources=sources, cases=cases, estimates=estimates, ranks=ranks)


def _halved(judge: Judge, sources: Sequence[str], chosen: Sequence[int], tell: Tell) -> Halving:
    """Time the chosen sources until few are left."""
    first = [sources[i] for i in chosen]
    judge.build(sources[0], first)  # all at once, beside each other
    return halved(judge.task, judge.time, first, judge.weighted, tell=tell)


@dataclass(frozen=True, kw_only=True)
class _Winner:
    """A source that was judged once more, on fresh inputs."""

    source: str
    table: ShapeTable | None
    """A choice by shape that was tried; the source's where it was taken."""
    confirmation: Evaluation


def _winner(judge: Judge, ranked: _Ranked, best: int, by_shape: bool, tell: Tell) -> _Winner:
    """The source of the best point, or, where that gains, of a choice between two by shape."""
    table = None
    if by_shape:
        tell("trying separate constants for two ranges of shapes", 0, 0)
        table, both = table_for(
            judge, ranked.points, ranked.sources, ranked.cases, ranked.estimates, best
        )
        confirmed = judge.evaluate(both, fresh_seeds=True) if both else None
        if confirmed and table and isinstance(confirmed.outcome, Timed):
            return _Winner(source=both, table=table, confirmation=confirmed)
        if confirmed and table:
            table = table.model_copy(update={"why": f"as a whole: {confirmed.outcome.kind}"})
    source = ranked.sources[best]
    tell(f"confirming on fresh seeds: {assignments(ranked.points[best])}", 0, 0)
    confirmed = judge.evaluate(source, fresh_seeds=True)
    return _Winner(source=source, table=table, confirmation=confirmed)


def _judged(
    judge: Judge, ranked: _Ranked, chosen: Sequence[int], kept: int, tell: Tell
) -> dict[int, Evaluation]:
    """Evaluations of the starting point and of the first `kept` that are chosen; of the others one
    by one, while none of these is correct."""
    evaluations = dict[int, Evaluation]()
    first = list(dict.fromkeys([0, *chosen[:kept]]))
    for index in [*first, *chosen[kept:]]:
        if len(evaluations) >= len(first) and any(_correct(evaluations.get(i)) for i in chosen):
            break
        values, total = assignments(ranked.points[index]), max(len(first), len(evaluations) + 1)
        tell(f"judged; next: {values}", len(evaluations), total)
        evaluations[index] = evaluations.get(index) or judge.evaluate(ranked.sources[index])
        said = describe(evaluations[index].outcome).partition("\n")[0]
        tell(f"judged; {values}: {said}", len(evaluations), total)
    return evaluations


def _correct(evaluation: Evaluation | None) -> bool:
    return evaluation is not None and isinstance(evaluation.outcome, Timed)


def _best(evaluations: Mapping[int, Evaluation]) -> int:
    """The best of the judged points; the first where none was timed."""
    outcomes = [(i, evaluations[i].outcome) for i in sorted(evaluations)]
    timed = [(i, outcome) for i, outcome in outcomes if isinstance(outcome, Timed)]
    place = best_of([outcome for _, outcome in timed])
    return min(evaluations) if place is None else timed[place][0]


def _rank(ratio: float | str) -> float:
    return ratio if isinstance(ratio, float) else 0.0


def _point(ranked: _Ranked, place: int, evaluation: Evaluation | None) -> TunedPoint:
    rank = ranked.ranks[place]
    return TunedPoint(
        values=dict(ranked.points[place]),
        candidate=candidate_id(ranked.sources[place]),
        estimated_ratio=rank if isinstance(rank, float) else None,
        failed="" if isinstance(rank, float) else rank,
        evaluation=evaluation,
    )
