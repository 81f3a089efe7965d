"""Cases that the baseline fails, and what it did there."""

from __future__ import annotations

from dataclasses import dataclass

from astra_chat.tools.run.failures import Failure
from astra_chat.tools.types import BuildFailed, Case, Crashed, TimedOut, Wrong


@dataclass(frozen=True)
class Failed:
    """A case on which the baseline's own errors cannot be learned."""

    case: Case
    outcome: Wrong | Failure | BuildFailed | None
    """Of the baseline; None: it was not tried, because others had failed."""

    @property
    def tried(self) -> bool:
        return self.outcome is not None

    def __str__(self) -> str:
        return f"{self.case.label}: {self._reason()}"

    def _reason(self) -> str:
        match self.outcome:
            case None:
                return "not tried"
            case BuildFailed():
                return "the baseline does not build"
            case Crashed():
                return "the baseline crashed"
            case TimedOut():
                return "the baseline timed out"
            case other:
                return f"the baseline is {other.kind}"
