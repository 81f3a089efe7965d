"""Uninitialized reads: reads of device memory that was never written, and shuffles that take the
value of a lane that does not take part.

A warning, reported once per source line for its first thread. A kernel may read such bytes and
never use them, so it is not stopped.
"""

from __future__ import annotations

from collections.abc import Iterable

from astra_vgpu.ptx.syntax import Instruction
from astra_vgpu.types import LaunchReport, UninitializedReads


def absent(lane: int) -> str:
    """The place of a value that a shuffle takes from a lane that does not take part."""
    return f"lane {lane} of the warp, which does not take part in this shuffle"


def first_of_each(reads: Iterable[UninitializedReads]) -> tuple[UninitializedReads, ...]:
    """The first of each instruction, in the order of the PTX."""
    kept: dict[int, UninitializedReads] = {}
    for one in reads:
        known = kept.get(one.line)
        if known is None or one.order < known.order:
            kept[one.line] = one
    return tuple(kept[line] for line in sorted(kept))


def warnings_of(reports: Iterable[LaunchReport]) -> dict[str, str]:
    """In words, once a source line of a kernel and a buffer, by these."""
    lines: dict[str, str] = {}
    for report in reports:
        kernel = report.launch.kernel
        for one in sorted(report.uninitialized, key=lambda one: one.order):
            buffer = one.place.partition(" of ")[2].partition(" (")[0]
            where = f"{kernel}, {one.source or f'PTX line {one.line}'}, {buffer}"
            lines.setdefault(where, one.message(kernel))
    return lines


def uninitialized_read(
    instruction: Instruction,
    order: tuple[int, int],
    names: tuple[str, str],
    size: int,
    place: str,
) -> UninitializedReads:
    """names: block and thread, as CUDA numbers them."""
    return UninitializedReads(
        instruction.line, instruction.source, instruction.text, *names, order, size, place
    )
