"""Progress messages of the judge for the live view."""

from __future__ import annotations

from astra_chat.tools.types import StepName, Value


class Progress(Value):
    """Sent while the judge works, for the live view; never part of a verdict."""

    step: StepName
    done: int
    total: int
    text: str
    remark: str = ""
    """What is known before the verdict; to be shown until it comes."""
