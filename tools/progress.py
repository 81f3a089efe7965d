"""Progress messages of the judge for the live view."""

from __future__ import annotations

from astra_chat.tools.types import StepName, Value

ORACLE = "computing inputs and expected results"
"""What is done while these are made, as text."""


class Progress(Value):
    """Sent while the judge works, for the live view; never part of a verdict."""

    step: StepName
    done: int
    total: int
    text: str
    remark: str = ""
    """What is known before the verdict; to be shown until it comes."""

    @property
    def line(self) -> str:
        """ "check, 31 of 58: comparing the candidate with the oracle"."""
        counted = f", {self.done} of {self.total}" if self.total > 1 else ""
        return f"{self.step}{counted}: {self.text}"
