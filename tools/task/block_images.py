"""Contents of blocks of device memory (placement.py): arguments spread into them before a call, and
each argument's own buffer out of them after it.

An argument's own buffer reads as if it lay alone. Bytes between its elements that belong to another
argument are that one's: here they hold what they would hold in a buffer of its own. Bytes that
belong to none show where they were changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from astra_chat.tools.task.buffer_layout import Bytes, Mask, background, elements_of, poisoned
from astra_chat.tools.task.placement import Layout
from astra_chat.tools.task.spans import buffer_bytes, used_bytes


def images(lies: Layout, contents: Sequence[Bytes], pattern: int) -> list[Bytes]:
    """The bytes of each block; `contents`: every argument's buffer by itself."""
    return [_image(lies, number, contents, pattern) for number in range(len(lies.blocks))]


def _image(lies: Layout, number: int, contents: Sequence[Bytes], pattern: int) -> Bytes:
    block, case = lies.blocks[number], lies.case
    if len(block.members) == 1:
        return contents[block.members[0]]
    image: Bytes = np.copy(poisoned(block.bytes, pattern))
    # Of two arguments at one address the call begins with what is read.
    for index in sorted(block.members, key=lambda index: lies.args[index].read):
        part, arg = image[lies.span(index)], lies.args[index]
        if block.mixed:
            elements_of(arg, case, part)[...] = elements_of(arg, case, contents[index])
        else:
            part[:] = contents[index]
    return image


def own_buffer(
    lies: Layout, index: int, before: Sequence[Bytes], after: Sequence[Bytes], pattern: int
) -> Bytes:
    """An argument's buffer after a call, by itself; `before` and `after`: bytes of each block."""
    number, span = lies.places[index][0], lies.span(index)
    if not lies.blocks[number].mixed:
        return after[number][span]
    arg, case = lies.args[index], lies.case
    then, now = before[number][span], after[number][span]
    now = np.where(of_others(lies, index), then, now)
    buffer: Bytes = np.copy(background(arg, case, pattern))
    buffer[now != then] ^= 0xFF
    elements_of(arg, case, buffer)[...] = elements_of(arg, case, now)
    return buffer


def own_mask(lies: Layout, index: int, masks: Sequence[Mask]) -> Mask:
    """Which bytes of an argument's buffer are marked, and belong to no other argument; `masks`: of
    each block."""
    number, span = lies.places[index][0], lies.span(index)
    if not lies.blocks[number].mixed:
        return masks[number][span]
    return masks[number][span] & ~of_others(lies, index)


def of_others(lies: Layout, index: int) -> Mask:
    """Which bytes of an argument's buffer belong to other arguments; where two lie at one address,
    to the one that is written."""
    block, case = lies.blocks[lies.places[index][0]], lies.case
    theirs, results = (np.zeros(block.bytes, np.bool_) for _ in range(2))
    for other in block.members:
        if other != index:
            arg, span = lies.args[other], lies.span(other)
            elements_of(arg, case, theirs[span])[...] = True
            if arg.access != "read":
                elements_of(arg, case, results[span])[...] = True
    arg, span = lies.args[index], lies.span(index)
    mine = elements_of(arg, case, theirs[span])
    mine[...] = elements_of(arg, case, results[span]) if arg.constant else False
    taken: Mask = theirs[span]
    return taken


def may_change(lies: Layout, number: int) -> Mask:
    """Which bytes of a block a launch may change: elements of results, and workspaces."""
    free = np.zeros(lies.blocks[number].bytes, np.bool_)
    for index in lies.blocks[number].members:
        arg, part = lies.args[index], free[lies.span(index)]
        if arg.access == "workspace":
            part[:] = True
        elif arg.written:
            elements_of(arg, lies.case, part)[...] = True
    return free


def loose(lies: Layout, number: int) -> Mask:
    """Which bytes of a block lie in no argument's buffer: a kernel may not write there."""
    free = np.ones(lies.blocks[number].bytes, np.bool_)
    for index in lies.blocks[number].members:
        free[lies.span(index)] = False
    return free


@dataclass(frozen=True)
class Allocation:
    """Part of a block that a kernel may touch."""

    name: str
    block: int
    start: int
    stop: int
    """Bytes in the block; where the last argument of a view ends, so does this."""
    read: bool
    """Whether it holds inputs."""
    weight: bool
    """Whether all that it holds is constant across calls."""


def allocations(lies: Layout, *, whole: bool = False) -> Iterator[Allocation]:
    """All of a call that hold a byte; `whole`: with what lies behind the last row."""
    used_of = [used_bytes(arg, lies.case) for arg in lies.args]
    for number, block in enumerate(lies.blocks):
        groups = [block.members] if block.one else [(index,) for index in block.members]
        for members in groups:
            starts = [lies.places[index][1] for index in members]
            stop = max(
                start + (buffer_bytes(lies.args[index], lies.case) if whole else used_of[index])
                for index, start in zip(members, starts, strict=True)
            )
            if stop > min(starts):
                name = "+".join(lies.args[index].name for index in members)
                read = any(lies.args[index].read for index in members)
                weight = all(lies.args[index].weight for index in members)
                yield Allocation(name, number, min(starts), stop, read, weight)
