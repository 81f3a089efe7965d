"""Kernels that are a baseline, or another kernel, with a few edits."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.tiers import baseline_source
from astra_chat.tools.types import Value


class Edit(Value):
    """A replacement in a kernel's source."""

    old: str = Field(min_length=1)
    """Text that must occur exactly `times`."""
    new: str
    times: int = Field(default=1, ge=1)


def edited(task: Task, edits: Sequence[Edit], name: str) -> str:
    """Returns the task's baseline with the edits.

    Raises:
        ValueError: with the kernel's name, where an edit's old text does not occur as often as it
            says.
    """
    return edited_text(baseline_source(task, "sglang"), edits, name)


def edited_text(text: str, edits: Sequence[Edit], name: str) -> str:
    """Returns a kernel's text with the edits.

    Raises:
        ValueError: as edited().
    """
    for edit in edits:
        if text.count(edit.old) != edit.times:
            count = text.count(edit.old)
            raise ValueError(f"{name}: {edit.old!r} occurs {count} times, not {edit.times}")
        text = text.replace(edit.old, edit.new)
    return text
