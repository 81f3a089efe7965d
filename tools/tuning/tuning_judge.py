"""A judge that also tunes a candidate's constants, as the executor of a run asks it to."""

from __future__ import annotations

import time

from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.timing.comparison import ESTIMATES
from astra_chat.tools.tuning.halving import halved
from astra_chat.tools.tuning.halving_rounds import Halving
from astra_chat.tools.tuning.ranking import estimated_ratios
from astra_chat.tools.tuning.space import read_space
from astra_chat.tools.tuning.tuned import TriedPoint, Tuning
from astra_chat.tools.types import candidate_id


class TuningJudge(Judge):
    """The judge of a run."""

    def __enter__(self) -> TuningJudge:
        return self

    def tune(self, source: str, points: int, measured: int) -> Tuning:
        """Rank at most so many points of a marked source on the virtual GPU; on a real GPU halve
        the first `measured` of them, with what the source holds, and take the one that is left.
        Without measurements the first is taken where its estimate is no tie with the source's.

        Raises BadInput where the source marks nothing, or wrongly, and Cancelled.
        """
        began, space = time.monotonic(), read_space(source)
        drawn = space.drawn(points, self.entropy.cases.of("tuning", source).random())
        sources = [space.at(point) for point in drawn]
        ranks = estimated_ratios(
            self.task,
            virtual_device(self.device.spec),
            self.baseline,
            sources,
            self.task.demo if self.device.kind == "cuda" else self.weighted,
            self.entropy.cases.of("ranking"),
            self.stop,
            lambda done: self._tell("time", done, len(drawn), "points ranked"),
        )
        good = {i: rank for i, rank in enumerate(ranks) if isinstance(rank, float)}
        order = sorted(range(len(drawn)), key=lambda i: (-good.get(i, 0.0), i))
        halves: Halving | None = None
        best = order[0] if good.get(order[0], 0.0) >= good.get(0, 0.0) * ESTIMATES else 0
        if self.device.kind == "cuda" and measured > 1:
            first = [sources[i] for i in dict.fromkeys([0, *(i for i in order if i in good)])]
            self.build(source, first[:measured])
            halves = halved(self.task, self.time, first[:measured], self.weighted, kept=1)
            names = [candidate_id(one) for one in sources]
            best = names.index(halves.left[0]) if halves.left else 0
        return Tuning(
            candidate=candidate_id(source),
            combinations=space.combinations,
            points=tuple(
                TriedPoint(
                    values=dict(drawn[i]),
                    estimated_ratio=good.get(i),
                    failed="" if i in good else str(ranks[i]),
                )
                for i in order
            ),
            start=dict(drawn[0]),
            best=dict(drawn[best]),
            halving=halves,
            seconds=time.monotonic() - began,
            gpu_s=sum(one.seconds for one in halves.rounds) if halves else 0.0,
        )
