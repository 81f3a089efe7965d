"""What a check saw of a candidate's precision over all its cases: the share of results inside the
band, and where its errors lean."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from astra_chat.tools.check.bands import has_band, inside_share, is_narrow
from astra_chat.tools.check.column_bias import ColumnBias
from astra_chat.tools.check.measured_values import MeasuredPiece
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Wrong


@dataclass
class PrecisionSeen:
    """Precision of one candidate so far; grows case by case."""

    bias: ColumnBias = field(default_factory=ColumnBias)
    _inside: Counter[str] = field(default_factory=Counter)
    _of: Counter[str] = field(default_factory=Counter)

    def add(self, task: Task, piece: MeasuredPiece) -> None:
        """Count the results of an argument on a case."""
        self.bias.add(piece)
        if is_narrow(piece) and has_band(task, piece):
            inside, count = inside_share(task, piece)
            self._inside[piece.arg.name] += inside
            self._of[piece.arg.name] += count

    def merge(self, later: PrecisionSeen) -> None:
        """Count what was counted elsewhere, of later results."""
        self.bias.merge(later.bias)
        self._inside.update(later._inside)
        self._of.update(later._of)

    @property
    def shares(self) -> dict[str, float]:
        """Share of results near a midpoint, where either neighbour is right, for each argument of
        16 bits or less: of a sample of the results of each case."""
        return {name: self._inside[name] / max(1, count) for name, count in self._of.items()}

    def leans(self, baseline: ColumnBias) -> Wrong | None:
        """The columns whose errors lean another way than the baseline's."""
        return self.bias.beside(baseline)
