"""malloc and free in kernels, and the check of accesses to the device heap."""

from __future__ import annotations

import numpy as np

from astra_vgpu.memory.heap import FREED_TWICE
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.address_spaces import lane_number
from astra_vgpu.numpy_engine.code import Code, Step, family
from astra_vgpu.numpy_engine.frame import Frame
from astra_vgpu.ptx.syntax import Group, Operand, Symbol


@family("malloc")
def malloc(code: Code) -> Step:
    """Lane by lane: an address, or 0."""
    (result,), (size,) = _slots(code, code.operand(0), 1), _slots(code, code.operand(1), 1)

    def step(f: Frame) -> None:
        heap = f.memory.heap
        words = f.local.items(8)
        for start in _starts(f):
            words[(start + result) >> 3] = heap.take(int(words[(start + size) >> 3]))

    return step


@family("free")
def free(code: Code) -> Step:
    _slots(code, code.operand(0), 0)
    (place,) = _slots(code, code.operand(1), 1)

    def step(f: Frame) -> None:
        words = f.local.items(8)
        for lane, start in enumerate(_starts(f)):
            if not f.memory.heap.give(int(words[(start + place) >> 3])):
                raise f.fault(
                    code.instruction,
                    "bad_free",
                    FREED_TWICE,
                    machine.LAUNCH_FAILURE,
                    lane_number(f.active, lane),
                )

    return step


def _starts(f: Frame) -> list[int]:
    """Where the local memory of each active lane begins."""
    starts = np.broadcast_to(f.local.origin, f.shape)[f.active.mask]
    return [int(start) for start in starts]


def _slots(code: Code, group: Operand, count: int) -> list[int]:
    places = [
        code.offset_of(item.name)
        for item in (group.items if isinstance(group, Group) else ())
        if isinstance(item, Symbol)
    ]
    if len(places) != count:
        raise code.refuse("this form of malloc or free")
    return places
