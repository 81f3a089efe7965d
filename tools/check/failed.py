"""Cases that the baseline fails, and what it did there."""

from __future__ import annotations

from dataclasses import dataclass

from astra_chat.tools.descriptions import describe, told_apart
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.types import BuildFailed, Case, Crashed, TimedOut, Unsafe, Wrong


@dataclass(frozen=True)
class Failed:
    """A case on which the baseline's own errors cannot be learned."""

    case: Case
    outcome: Wrong | Failure | BuildFailed | None
    """What the baseline did; None: it was not tried, because others had failed."""
    near: Case | None = None
    """Case near this one on which the baseline failed, so that this one was not tried."""

    @property
    def tried(self) -> bool:
        return self.outcome is not None

    @property
    def is_baselines(self) -> bool:
        """Whether it is the baseline that fails there, rather than the virtual GPU or a limit of
        time."""
        return isinstance(self.outcome, Wrong | Crashed | Unsafe)

    @property
    def cause(self) -> str:
        """What the baseline did, with all that is known of it."""
        match self.outcome:
            case Crashed(message=message):
                return message
            case Unsafe() | Wrong():
                return describe(self.outcome)
            case _:
                return self._reason()

    def __str__(self) -> str:
        return f"{self.case.label}: {self._reason()}"

    def _reason(self) -> str:
        match self.outcome:
            case None if self.near:
                return f"not tried: the baseline failed on {self.near.label}"
            case None:
                return "not tried"
            case BuildFailed():
                return "the baseline does not build"
            case Crashed(message=message):
                return f"the baseline crashed: {message}"
            case TimedOut():
                return "the baseline timed out"
            case Wrong() as wrong if wrong.reason in ("value", "nan_pattern", "precision"):
                place = ", ".join(map(str, wrong.index))
                theirs, own = told_apart(wrong.expected, wrong.got)
                what = f"first at {wrong.argument}[{place}]: {own} and {theirs}"
                return f"the baseline and the reference disagree, {what}"
            case other:
                return f"the baseline is {other.kind}"
