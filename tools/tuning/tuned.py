"""What tuning a candidate of a run found: tried, chosen, and what it cost."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from astra_chat.tools.task.expressions import assignments
from astra_chat.tools.tuning.halving_rounds import Halving
from astra_chat.tools.types import Seconds, Value
from astra_chat.tools.wording import counted

NEAREST = 2
"""Points that are named where none is faster than what was there."""


class TriedPoint(Value):
    """One choice of all constants."""

    values: dict[str, int]
    estimated_ratio: float | None
    """Speedup over the baseline on the virtual GPU; None if it failed there."""
    failed: str = ""
    """Kind of the outcome that ended it."""


class Tuning(Value):
    """The executor's turn on a correct candidate that marks constants. The best point is not a
    result in itself: it becomes a candidate, which is judged like any other."""

    kind: Literal["tuning"] = "tuning"
    candidate: str
    """Candidate whose constants were tuned."""
    combinations: int = Field(ge=0)
    """Number of combinations of values, before the relations."""
    points: tuple[TriedPoint, ...]
    """Points that were ranked, best first."""
    start: dict[str, int]
    """Values in the candidate as written."""
    best: dict[str, int]
    """The starting point if nothing was faster by more than the resolution."""
    halving: Halving | None = None
    """Halving of the first points in the order, on a GPU."""
    seconds: Seconds
    gpu_s: Seconds = 0.0
    """Part of `seconds` during which a real GPU measured."""

    @property
    def measured(self) -> int:
        """Points that a GPU measured: a budget of evaluations counts each as one."""
        return self.halving.rounds[0].entered if self.halving and self.halving.rounds else 0

    @property
    def changed(self) -> bool:
        return self.best != self.start

    @property
    def words(self) -> str:
        """What came of it, in one line."""
        tried = (
            f"{len(self.points)} of {counted(self.combinations, 'point')} ranked on the virtual GPU"
        )
        tried += self._failed()
        tried += f", {self.measured} measured" if self.measured else ""
        if not self.changed:
            return (
                f"{tried}: none is faster than the constants of {self.candidate} by more than the"
                f" resolution{self._nearest()}"
            )
        chosen = ", ".join(
            f"{name} = {value} (was {self.start[name]})"
            for name, value in self.best.items()
            if value != self.start[name]
        )
        return f"{tried}: {chosen}"

    def _failed(self) -> str:
        """How many points failed, how, and one of each kind."""
        failed = [point for point in self.points if point.estimated_ratio is None]
        first = {point.failed: assignments(point.values) for point in reversed(failed)}
        hows = "; ".join(f"{kind}, as {values}" for kind, values in sorted(first.items()))
        return f", {len(failed)} of them failed ({hows})" if failed else ""

    def _nearest(self) -> str:
        """What the candidate holds and what came next to it, by estimate, and which values were
        tried."""
        ratios = [(one.estimated_ratio, one.values) for one in self.points if one.estimated_ratio]
        held = next((ratio for ratio, values in ratios if values == self.start), None)
        if held is None:
            return ""
        others = sorted((one for one in ratios if one[1] != self.start), key=lambda one: -one[0])
        nearest = "".join(
            f"; {assignments(values)}: {ratio:.3f}x" for ratio, values in others[:NEAREST]
        )
        tried = "; ".join(
            f"{name} {', '.join(map(str, sorted({values[name] for _, values in ratios})))}"
            for name in self.start
        )
        return f" ({held:.3f}x by estimate{nearest}). Tried: {tried}"
