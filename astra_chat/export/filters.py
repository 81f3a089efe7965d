"""Which evaluations an export takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from astra_chat.analysis.rows import EvaluationRow


@dataclass(frozen=True)
class Filter:
    """All that is asked for has to hold."""

    confirmed: bool = False
    """Only candidates that were accepted on new seeds."""
    measured: bool = False
    """Only evaluations that were timed on a real GPU."""
    device: str = ""
    """Words that the device's name contains: "H200"; empty for any device."""
    live: bool = False
    """Only runs in which a model answered."""

    def takes(self, row: EvaluationRow) -> bool:
        return (
            (row.confirmed or not self.confirmed)
            and (row.basis == "measured" or not self.measured)
            and self.device.lower() in row.device.lower()
            and (row.live or not self.live)
        )

    def of(self, rows: Iterable[EvaluationRow]) -> list[EvaluationRow]:
        return [row for row in rows if self.takes(row)]
