"""cp.async: copies from global to shared memory that arrive when their group is waited for.

Who reads where a copy is still on its way is stopped: on a GPU either value may be there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from astra_chat.tools.virtual_gpu.numpy_engine import frame as machine
from astra_chat.tools.virtual_gpu.numpy_engine.arena import Site, lane_number, select
from astra_chat.tools.virtual_gpu.numpy_engine.code import Code, Read, Step, family
from astra_chat.tools.virtual_gpu.numpy_engine.frame import Active, Frame, Mask
from astra_chat.tools.virtual_gpu.numpy_engine.kinds import Array
from astra_chat.tools.virtual_gpu.numpy_engine.loads import (
    address_reader,
    fetch_global,
    put_arena,
)
from astra_chat.tools.virtual_gpu.syntax import Immediate

_WORD = 4
"""Bytes of the smallest copy."""
UNWAITED = "read of bytes that a cp.async is still on its way to: its group was not waited for"


@dataclass
class _Copy:
    """One cp.async of some lanes that has not arrived."""

    site: Site
    target: Array
    """Shared address of each lane: [blocks, threads]."""
    values: Array
    lanes: Mask
    group: NDArray[np.int64]
    """Number of each lane's group: how many it had committed before."""


@dataclass
class CopyQueue:
    """The copies of a batch that are on their way."""

    committed: NDArray[np.int64]
    """Groups that each lane has closed."""
    flying: NDArray[np.int32]
    """By word of the batch's shared memory: copies on their way there."""
    copies: list[_Copy] = field(default_factory=list)

    def send(self, f: Frame, copy: _Copy) -> None:
        self.copies.append(copy)
        self._fly(f, copy, copy.lanes, 1)

    def _fly(self, f: Frame, copy: _Copy, mask: Mask, step: int) -> None:
        lanes = Active(mask, int(np.count_nonzero(mask)))
        offsets = select(copy.target, lanes, f.shape).astype(np.int64)
        inside = offsets + copy.site.size <= f.shared.limit
        first = (select(f.shared.origin, lanes, f.shape) + offsets)[inside] // _WORD
        for word in range(copy.site.size // _WORD):
            np.add.at(self.flying, first + word, step)

    def check_arrived(self, f: Frame, site: Site, index: NDArray[np.int64], active: Active) -> None:
        """index: items of the site's size that each active lane reads. Raises Fault."""
        if not self.copies:
            return
        first, last = index * site.size // _WORD, ((index + 1) * site.size - 1) // _WORD
        met = self.flying[first] > 0
        for word in range(1, max(site.size // _WORD, 1)):
            met |= self.flying[np.minimum(first + word, last)] > 0
        if met.any():
            lane = int(np.argmax(met))
            offset = int(index[lane]) * site.size - int(
                select(f.shared.origin, active, f.shape)[lane]
            )
            raise f.fault(
                site.instruction, "missing_wait", f"{UNWAITED} (shared offset {offset})",
                machine.LAUNCH_FAILURE, lane_number(active, lane),
            )  # fmt: skip

    def arrive(self, f: Frame, active: Active, most_pending: int) -> None:
        """Completes all groups of the active lanes but the last `most_pending`."""
        done = self.committed - most_pending
        for copy in self.copies:
            mask = copy.lanes & active.mask & (copy.group < done)
            lanes = Active(mask, int(np.count_nonzero(mask)))
            if lanes.count:
                self._fly(f, copy, mask, -1)
                values = select(copy.values, lanes, f.shape)
                put_arena(f, copy.site, "shared", copy.target, values, lanes)
                copy.lanes = copy.lanes & ~mask
        self.copies = [copy for copy in self.copies if copy.lanes.any()]


def _queue(f: Frame) -> CopyQueue:
    if f.copies is None:
        f.copies = CopyQueue(
            np.zeros(f.shape, np.int64), np.zeros(f.shared.data.size // _WORD + 1, np.int32)
        )
    return f.copies


@family("cp")
def cp(code: Code) -> Step:
    code.option("async")
    if code.flag("commit_group"):
        return _commit(code)
    if code.flag("wait_group"):
        return _wait(code, _constant(code, 0))
    if code.flag("wait_all"):
        return _wait(code, None)
    code.option("ca", "cg")
    code.option("shared", "shared::cta")
    code.option("global")
    code.ignore_hints()
    code.count(3, 4)
    return _copy(code, _constant(code, 2))


def _constant(code: Code, index: int) -> int:
    operand = code.operand(index)
    if not isinstance(operand, Immediate):
        raise code.refuse("a size that is no constant")
    return operand.value


def _copy(code: Code, size: int) -> Step:
    if size not in (4, 8, 16):
        raise code.refuse("this size")
    target = address_reader(code, code.operand(0))
    source = address_reader(code, code.operand(1))
    wanted = code.read(3, "u32") if len(code.operands) == 4 else None
    reads = Site(code.instruction, size, writes=False)
    writes = Site(code.instruction, size, writes=True)
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        if wanted is None:
            values = fetch_global(f, reads, source(f), active)
        else:
            values = _cut(f, reads, source(f), wanted, active)
        queue = _queue(f)
        queue.send(f, _Copy(writes, target(f), values, active.mask, queue.committed.copy()))

    return step


def _cut(f: Frame, site: Site, source: Array, wanted: Read, active: Active) -> Array:
    """Only the first bytes are read; zeros fill the rest. Those lanes that read none touch
    nothing."""
    counts = np.broadcast_to(wanted(f), f.shape)
    mask = active.mask & (counts > 0)
    some = Active(mask, int(np.count_nonzero(mask)))
    out = np.zeros((*f.shape, site.size), np.uint8)
    if some.count:
        values = np.broadcast_to(fetch_global(f, site, source, some), f.shape)
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(out.shape)
        out = np.where(np.arange(site.size) < counts[..., None], raw, out)
    return out.view(f.shared.items(site.size).dtype)[..., 0]


def _commit(code: Code) -> Step:
    active_lanes = code.active

    def step(f: Frame) -> None:
        _queue(f).committed[active_lanes(f).mask] += 1

    return step


def _wait(code: Code, most_pending: int | None) -> Step:
    """Without a number: for everything, committed or not."""
    active_lanes = code.active

    def step(f: Frame) -> None:
        active, queue = active_lanes(f), _queue(f)
        if most_pending is None:
            queue.committed[active.mask] += 1
        queue.arrive(f, active, most_pending or 0)

    return step
