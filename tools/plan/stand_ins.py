"""Stand-in addresses: where the buffers of a case pretend to lie while a plan is recorded.

Nothing is ever stored there: the recorder reserves the pages without access rights. Every recording
of a case draws other addresses, equal modulo 1,024 bytes to those of the replay.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from astra_chat.tools.plan.model import BEFORE_BYTES
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.placement import layout
from astra_chat.tools.task.spans import buffer_bytes
from astra_chat.tools.types import Case
from astra_vgpu.ground.cubin import CubinVariable

ALIGNMENT = 1024
"""What a launcher may know of an address: its remainder by this."""
_LOWEST, _HIGHEST = 0x1000_0000_0000, 0x5000_0000_0000
"""Range of the addresses: between where Linux puts programs and where it puts libraries and
stacks."""
_GAP_BYTES = BEFORE_BYTES
"""Bytes kept free on both sides of each buffer or variable: an address so far before one lies in no
other."""


@dataclass(frozen=True)
class Buffer:
    """One stretch of device memory in which arguments of a case lie."""

    bytes: int
    remainder: int = 0
    """Remainder of its address modulo 1,024."""


@dataclass(frozen=True)
class Argument:
    """Where a tensor argument of the launcher lies."""

    name: str
    bytes: int
    """From its first element to the end of its last, padding between rows included."""
    buffer: int | None
    """Index of its buffer; None: a null pointer."""
    offset: int = 0
    """Bytes from the start of the buffer to its first element."""


@dataclass(frozen=True)
class Buffers:
    """The device memory of one call. Arguments of the same buffer are views: they keep their
    distance."""

    buffers: tuple[Buffer, ...]
    arguments: tuple[Argument, ...]
    """Arguments in the order of the contract."""


def usual_buffers(task: Task, case: Case) -> Buffers:
    """The blocks of a case, shifted as it says: one for every argument, or for several that lie
    together."""
    lies = layout(task, case)
    arguments = []
    for arg, (block, at) in zip(task.args, lies.places, strict=True):
        size = max(1, buffer_bytes(arg, case))
        arguments.append(Argument(arg.name, size, block if arg.present(case) else None, at))
    return Buffers(
        buffers=tuple(Buffer(max(1, b.bytes), b.shift % ALIGNMENT) for b in lies.blocks),
        arguments=tuple(arguments),
    )


@dataclass(frozen=True)
class Addresses:
    """Drawn addresses of one recording, by name."""

    arguments: Mapping[str, int]
    """Address of each argument's first element, by name; 0: a null pointer."""
    buffers: tuple[int, ...]


def draw_addresses(buffers: Buffers, taken: Sequence[range], rng: random.Random) -> Addresses:
    """Addresses for the buffers of a call, in drawn order, clear of `taken` and of each other."""
    starts = draw_starts([(b.bytes, b.remainder) for b in buffers.buffers], taken, rng)
    return Addresses(
        arguments={
            a.name: 0 if a.buffer is None else starts[a.buffer] + a.offset
            for a in buffers.arguments
        },
        buffers=tuple(starts),
    )


def draw_variables(variables: Mapping[str, CubinVariable], rng: random.Random) -> dict[str, int]:
    """Addresses for the variables of a cubin; they hold for a process."""
    starts = draw_starts([(v.bytes, v.misalignment) for v in variables.values()], [], rng)
    return dict(zip(variables, starts, strict=True))


def draw_starts(
    sizes: Sequence[tuple[int, int]], taken: Sequence[range], rng: random.Random
) -> list[int]:
    """For each size and remainder an address; all distances between them are drawn and distinct."""
    held = list(taken)
    starts: list[int] = []
    while len(starts) < len(sizes):
        size, remainder = sizes[len(starts)]
        start = rng.randrange(_LOWEST // ALIGNMENT, _HIGHEST // ALIGNMENT) * ALIGNMENT + remainder
        span = range(start - _GAP_BYTES, start + size + _GAP_BYTES)
        if all(span.stop <= other.start or other.stop <= span.start for other in held):
            held.append(span)
            starts.append(start)
    return starts
