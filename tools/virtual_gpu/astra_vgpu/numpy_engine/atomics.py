"""atom and red: lanes update memory in the order of their numbers, or in the reverse of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.lowering.regions import adds_one
from astra_vgpu.memory.buffers import Items, Memory
from astra_vgpu.numpy_engine import halves, proxy_fences, warp_races
from astra_vgpu.numpy_engine.address_spaces import (
    BufferRegion,
    Index,
    Site,
    global_regions,
    mark_stored,
    select,
    spaces_of,
    spread,
)
from astra_vgpu.numpy_engine.block_races import meet_all, synchronise, touch
from astra_vgpu.numpy_engine.code import Code, Step, family
from astra_vgpu.numpy_engine.dtypes import HALVES, Array, dtype_of
from astra_vgpu.numpy_engine.frame import Active, Frame
from astra_vgpu.numpy_engine.loads import (
    address_reader,
    arena_of,
    note_store,
    note_uninitialized_global,
    note_uninitialized_shared,
    resolved_space,
    space_of,
)
from astra_vgpu.numpy_engine.rounding import flush
from astra_vgpu.numpy_engine.shared_memory_races import RaceCheck

Update = Callable[[Array, Array, Array], Array]
"""(old, operand, second operand) -> new"""
_TYPES = tuple("b16 b32 b64 u32 u64 s32 s64 f32 f64".split())
_UPDATES: dict[str, Update] = {
    "add": lambda old, b, c: old + b,
    "min": lambda old, b, c: np.minimum(old, b),
    "max": lambda old, b, c: np.maximum(old, b),
    "and": lambda old, b, c: old & b,
    "or": lambda old, b, c: old | b,
    "xor": lambda old, b, c: old ^ b,
    "exch": lambda old, b, c: b,
    "cas": lambda old, b, c: np.where(old == b, c, old),
    "inc": lambda old, b, c: np.where(old >= b, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, b, c: np.where((old == 0) | (old > b), b, old - old.dtype.type(1)),
}


@family("atom")
def atom(code: Code) -> Step:
    return _atomic(code, returns=True)


@family("red")
def red(code: Code) -> Step:
    return _atomic(code, returns=False)


def _atomic(code: Code, *, returns: bool) -> Step:
    if code.flag("async"):
        raise code.refuse("an asynchronous reduction")
    first = 1 if returns else 0
    space = resolved_space(code, space_of(code), code.operand(first))
    code.ignore("relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys")
    how = code.option(*_UPDATES)
    code.flag("noftz")
    type_name = code.type(*_TYPES, *HALVES)
    code.count(first + (3 if how == "cas" else 2))
    update = _typed(code, how, type_name)
    in_global = _flushing(update) if (how, type_name) == ("add", "f32") else update
    address = address_reader(code, code.operand(first))
    operands = [code.read(index, type_name) for index in range(first + 1, len(code.operands))]
    write = code.write(0, type_name) if returns else None
    active_lanes = code.active
    dtype = dtype_of(type_name)
    site = Site(
        code.instruction,
        dtype.itemsize,
        writes=True,
        ordered=True,
        floats="f" in type_name,
        blind=how == "exch",
        counts=adds_one(code.instruction),
        sums=id(code.instruction) in code.unit.sums,
        reads_data=id(code.instruction) in code.unit.data_reads,
    )

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        values = [select(read(f), active, f.shape) for read in operands]
        old = np.empty(active.count, dtype)
        for items, index, chosen, shared in _targets(f, site, space, address(f), active):
            mine = [value[chosen] for value in values]
            here = in_global if shared is None else update
            old[chosen] = found = _in_turn(items.view(dtype), index, here, mine, f.memory)
            if shared is not None and type(f.races) is RaceCheck and not f.shared.reserved_at:
                f.races.update(f, site, index, shared, items[index] != found.view(items.dtype))
        if write is not None:
            write(f, spread(old, active, f.shape))

    return step


def _flushing(update: Update) -> Update:
    """Where L2 adds, operands and results below the normal numbers are 0, by the PTX ISA; shared
    memory keeps them."""
    return lambda old, b, c: flush(update(flush(old), flush(b), c))


def _typed(code: Code, how: str, type_name: str) -> Update:
    update = _UPDATES[how]
    if type_name in HALVES:
        if how != "add":
            raise code.refuse("this atomic operation on halves")
        add = halves.rounded(type_name, np.add)
        return lambda old, b, c: add(old, b)
    if type_name in ("f32", "f64") and how not in ("add", "exch"):
        raise code.refuse("this atomic operation on floats")
    return update


def _targets(
    f: Frame, site: Site, space: str, address: Array, active: Active
) -> Iterator[tuple[Items, Index, NDArray[Any], Active | None]]:
    """(items, index into them, which active lanes, these lanes of shared memory) for each place
    that the addresses lead to."""
    if space:
        parts: Any = [(space, address, active)]
    else:
        parts = spaces_of(f, address, active)
    order = np.cumsum(active.mask.reshape(-1)) - 1
    for where, inner, lanes in parts:
        positions = order[lanes.mask.reshape(-1)]
        if where == "global":
            addresses = select(inner, lanes, f.shape)
            if f.counters is not None:
                f.counters.global_access(site, np.broadcast_to(inner, f.shape), lanes)
            for region in global_regions(f, site, addresses, lanes):
                _touch(f, site, region, addresses, lanes)
                chosen = positions if region.chosen is None else positions[region.chosen]
                yield region.items, region.index, chosen, None
        else:
            arena = arena_of(f, where)
            index = arena.locate(f, site, inner, lanes)
            if where == "shared":
                if f.races is not None and arena.reserved_at:
                    # So tiles of several warps meet: a missed race is better than a false positive.
                    f.races.advance(lanes.mask.any(axis=1))
                if where == "shared" and (arena.reserved_at or not site.sums):
                    meet_all(f, lanes)  # who tells other warps something by what it finds there
                _order_shared(f, site, lanes)
                _touch_shared(f, site, inner, index, lanes)
            yield arena.items(site.size), index, positions, lanes if where == "shared" else None


def _touch(f: Frame, site: Site, region: BufferRegion, addresses: Array, lanes: Active) -> None:
    if not site.blind:
        note_uninitialized_global(f, site, region, addresses, lanes)
    if touched := touch(f, site, region, addresses, lanes):
        touched.update()
    if accessed := warp_races.access(f, site, region, addresses, lanes):
        accessed.update()
    if "cta" in site.instruction.modifiers:
        warp_races.synchronise(f, site, addresses, lanes)
    else:
        synchronise(f, site, addresses, lanes)
    mark_stored(f, site, region, lanes)
    proxy_fences.stored(f, site, region, addresses, lanes)
    if f.memory.watch is not None:
        note_store(f, f.memory.watch, site, addresses, lanes)
    if f.counters is not None:
        f.counters.touch(site, region, addresses)
        f.counters.atomic(region, addresses, lanes, site.floats)


def _order_shared(f: Frame, site: Site, lanes: Active) -> None:
    """What an atomic operation on shared memory orders between warps."""
    if f.races is None:
        return
    if site.releases:
        f.races.fence(lanes)
    if not site.sums:
        f.races.flag(lanes)


def _touch_shared(f: Frame, site: Site, address: Array, index: Index, lanes: Active) -> None:
    if not site.blind:
        note_uninitialized_shared(f, site, index, lanes)
    f.shared.fill(site.size, index)
    if f.counters is not None:
        count = f.counters.shared_access if site.counts else f.counters.shared_atomic
        count(site, address, lanes)


def _in_turn(
    items: Items, index: Index, update: Update, values: list[Array], memory: Memory
) -> Array:
    """Applies the update lane by lane where addresses repeat; returns what each lane found.

    Round k serves the k-th lane of every address, so the addresses of one round differ.
    """
    old = np.empty(index.size, items.dtype)
    for turn in _turns(index, memory.descending):
        at = index[turn]
        old_values = items[at]
        old[turn] = old_values
        b = values[0][turn]
        c = values[1][turn] if len(values) > 1 else b
        items[at] = update(old_values, b, c)
    return old


def _turns(index: Index, descending: bool) -> Iterator[NDArray[Any]]:
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sizes = np.diff(np.append(starts, index.size))
    if int(sizes.max()) == 1:
        yield np.arange(index.size)
        return
    rank = np.arange(index.size) - np.repeat(starts, sizes)
    if descending:
        rank = np.repeat(sizes - 1, sizes) - rank
    by_rank = np.argsort(rank, kind="stable")
    for turn in np.split(by_rank, np.cumsum(np.bincount(rank))[:-1]):
        yield order[turn]
