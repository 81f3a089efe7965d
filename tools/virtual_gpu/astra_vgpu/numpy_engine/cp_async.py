"""cp.async: copies from global to shared memory that complete when their group is waited for."""

from __future__ import annotations

import numpy as np

from astra_vgpu.isa.bulk_copies import is_bulk
from astra_vgpu.numpy_engine.address_spaces import Site
from astra_vgpu.numpy_engine.bulk import bulk
from astra_vgpu.numpy_engine.code import Code, Read, Step, family
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import Active, Frame
from astra_vgpu.numpy_engine.loads import address_reader, fetch_global
from astra_vgpu.numpy_engine.mbarriers import arrival_of_copies
from astra_vgpu.numpy_engine.pending_copies import Copy, queue_of
from astra_vgpu.ptx.syntax import Immediate


@family("cp")
def cp(code: Code) -> Step:
    if is_bulk(code.instruction):
        return bulk(code)
    code.option("async")
    if code.flag("mbarrier"):
        return arrival_of_copies(code)
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
        raise code.refuse("a size that is not a constant")
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
        to, queue = target(f), queue_of(f)
        if f.races is not None:
            f.races.copy_begins(f, writes, f.shared.locate(f, writes, to, active), active)
        queue.send(f, Copy(writes, to, values, active.mask, queue.committed.copy()))

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
        queue_of(f).committed[active_lanes(f).mask] += 1

    return step


def _wait(code: Code, most_pending: int | None) -> Step:
    """Without a number: for everything, committed or not."""
    active_lanes = code.active

    def step(f: Frame) -> None:
        active, queue = active_lanes(f), queue_of(f)
        if most_pending is None:
            queue.committed[active.mask] += 1
        queue.arrive(f, active, most_pending or 0)

    return step
