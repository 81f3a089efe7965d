"""Honest kernels in Triton by their tasks, and edits of them."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.task.shipped import task_folder

KERNELS = Path(__file__).parent / "kernels"
SOURCES = {path.stem: path.read_text() for path in sorted(KERNELS.glob("*.py"))}
SOURCES["moe_sum_reduce"] = (task_folder("moe_sum_reduce") / "script" / "columns.py").read_text()
_TILES = task_folder("linear_cross_entropy") / "script" / "tiles.py"
SOURCES["linear_cross_entropy"] = _TILES.read_text()
Edits = tuple[tuple[str, str], ...]


def edited(name: str, edits: Edits) -> str:
    """A kernel with each text replaced that is there."""
    source = SOURCES[name]
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new)
    return source
