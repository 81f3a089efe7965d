"""ld and st: all address spaces, vectors, faults and counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from astra_vgpu.lowering.ordered_accesses import is_loose, is_ordered
from astra_vgpu.lowering.store_merging import ALONE
from astra_vgpu.memory.buffers import StoreWatch
from astra_vgpu.numpy_engine import proxy_fences, warp_races
from astra_vgpu.numpy_engine.address_spaces import (
    Arena,
    BufferRegion,
    Index,
    Site,
    check_finished,
    global_regions,
    lane_number,
    mark_stored,
    reads_constants,
    select,
    spaces_of,
    spread,
)
from astra_vgpu.numpy_engine.block_races import (
    Touch,
    meet_all,
    synchronise,
    touch,
)
from astra_vgpu.numpy_engine.claimed_rows import claim_rows
from astra_vgpu.numpy_engine.code import Code, Read, Step, Write, family
from astra_vgpu.numpy_engine.dtypes import Array, dtype_of, unsigned
from astra_vgpu.numpy_engine.frame import Active, Frame
from astra_vgpu.numpy_engine.shared_memory_races import differ
from astra_vgpu.numpy_engine.warp_races import Access
from astra_vgpu.ptx.syntax import Address, Operand, Register, Symbol, Vector

_ORDERS = ("volatile", "relaxed", "acquire", "release")
_SCOPES = ("cta", "cluster", "gpu", "sys")
_CACHE = ("ca", "cg", "cs", "lu", "cv", "wb", "wt")
_MEMORY_TYPES = tuple("b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64".split())


def space_of(code: Code) -> str:
    """The space among the modifiers; "" for a generic address."""
    for name in ("global", "const", "local"):
        if code.flag(name):
            return name
    if code.flag("shared") or code.flag("shared::cta"):
        return "shared"
    if code.flag("param") or code.flag("param::entry") or code.flag("param::func"):
        return "param"
    return ""


def address_reader(code: Code, operand: Operand) -> Read:
    """The address of each lane as uint64; 32-bit addresses wrap in 32 bits."""
    if not isinstance(operand, Address):
        raise code.refuse("this form of address")
    base, offset = operand.base, operand.offset
    if isinstance(base, Register) and base.bits == 32:
        read32 = code.reader(base, np.dtype(np.uint32))
        step32 = np.uint32(offset % (1 << 32))
        return lambda f: (read32(f) + step32).astype(np.uint64)
    if isinstance(base, Symbol):
        return code.symbol(Symbol(base.name, offset), np.dtype(np.uint64))
    read = code.reader(base, np.dtype(np.uint64))
    if offset == 0:
        return read
    step = np.uint64(offset % (1 << 64))
    return lambda f: read(f) + step


def resolved_space(code: Code, space: str, operand: Operand) -> str:
    """A slot of a call, or a variable named in a generic access, has its own space."""
    if isinstance(operand, Address) and isinstance(operand.base, Symbol):
        place = code.unit.places.get(operand.base.name)
        if place is not None and (space in ("", "param")):
            return "local" if place.space == "slot" else place.space
    return space


class _Form:
    """What ld and st have in common: space, width, elements, order."""

    def __init__(self, code: Code, address: Operand, *, writes: bool) -> None:
        self.space = resolved_space(code, space_of(code), address)
        code.optional(*_ORDERS)
        ordered = is_ordered(code.instruction, code.unit.looks)
        code.ignore("weak", "nc", *_SCOPES, *_CACHE)
        code.ignore_hints()
        self.lanes = {"": 1, "v2": 2, "v4": 4}[code.optional("v2", "v4")]
        self.type = code.type(*_MEMORY_TYPES)
        self.element = dtype_of(self.type)
        size = self.element.itemsize * self.lanes
        if size > 16:
            raise code.refuse("an access of more than 16 bytes")
        levels = code.unit.levels.get(id(code.instruction), ())
        kept = id(code.instruction) in code.unit.in_registers
        run = code.unit.runs.get(id(code.instruction), ALONE)
        constant = not writes and reads_constants(self.space, address)
        self.site = Site(
            code.instruction,
            size,
            writes,
            ordered,
            is_loose(code.instruction, code.unit.looks),
            id(code.instruction) in code.unit.deciding,
            levels=levels,
            in_registers=kept,
            run=run,
            constant=constant,
            float_type=code.unit.float_stores.get(id(code.instruction), ""),
            reads_data=id(code.instruction) in code.unit.data_reads,
        )

    def parts(self, code: Code, operand: Operand) -> tuple[Operand, ...]:
        items = operand.items if isinstance(operand, Vector) else (operand,)
        if len(items) != self.lanes:
            raise code.refuse("this number of elements")
        return items


@family("ld")
def load(code: Code) -> Step:
    form = _Form(code, code.operand(1), writes=False)
    code.count(2)
    address = address_reader(code, code.operand(1))
    parts = form.parts(code, code.operand(0))
    writes = [code.writer(part, form.element) for part in parts]
    fetch = fetcher(form.space, form.site)
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if active.count:
            at = address(f)
            if form.site.constant and f.counters is not None:
                f.counters.constants.load(form.site.size, at, active)
            _deliver(f, fetch(f, at, active), form.element, writes)

    return step


def _deliver(f: Frame, values: Array, element: Any, writes: list[Write]) -> None:
    """values: one item a lane, [blocks, threads], as wide as all elements together."""
    if len(writes) == 1:
        writes[0](f, values.view(element))
        return
    elements = np.ascontiguousarray(values).view(element).reshape(*values.shape, len(writes))
    for place, write in enumerate(writes):
        write(f, np.ascontiguousarray(elements[..., place]))


Fetch = Callable[[Frame, Array, Active], Array]


def fetcher(space: str, site: Site) -> Fetch:
    if space in ("global", "const"):
        counted = space == "global"
        return lambda f, address, active: fetch_global(f, site, address, active, counted)
    if space:
        return lambda f, address, active: fetch_arena(f, site, space, address, active)

    def generic(f: Frame, address: Array, active: Active) -> Array:
        out = None
        for where, inner, lanes in spaces_of(f, address, active):
            if where == "global":
                part = fetch_global(f, site, inner, lanes)
            else:
                part = fetch_arena(f, site, where, inner, lanes)
            out = part if out is None else np.where(lanes.mask, part, out)
        assert out is not None
        return out

    return generic


def fetch_global(
    f: Frame, site: Site, address: Array, active: Active, counted: bool = True
) -> Array:
    """One item of `site.size` bytes a lane: [blocks, threads], or [1, 1] from one address.
    Constants have a cache of their own: not `counted`, they are no traffic of global memory."""
    block_counters = f.counters if counted else None
    if block_counters is not None:
        block_counters.global_access(site, address, active)
    uniform = address.size == 1
    addresses = address.reshape(-1) if uniform else select(address, active, f.shape)
    if site.ordered:
        synchronise(f, site, addresses, active)
    values = None
    for region in global_regions(f, site, addresses, active):
        note_uninitialized_global(f, site, region, addresses, active)
        if touched := touch(f, site, region, addresses, active):
            (touched.look if site.ordered else touched.read)()
        if not site.ordered and (accessed := warp_races.access(f, site, region, addresses, active)):
            accessed.read()
        part = region.items.take(region.index)
        if block_counters is not None:
            block_counters.touch(site, region, addresses)
        if region.chosen is None:
            values = part
        else:
            values = np.zeros(addresses.size, part.dtype) if values is None else values
            values[region.chosen] = part
    assert values is not None
    return values.reshape(1, 1) if uniform else spread(values, active, f.shape)


def note_uninitialized_global(
    f: Frame, site: Site, region: BufferRegion, addresses: Array, active: Active
) -> None:
    """Warns about uninitialized reads."""
    uninitialized = region.buffer.uninitialized(site.size, region.index)
    if uninitialized is not None:
        lane = int(np.argmax(uninitialized))
        chosen = lane if region.chosen is None else int(region.chosen[lane])
        f.note_uninitialized(
            site.instruction,
            site.size,
            lane_number(active, chosen),
            lambda: f.memory.place(int(addresses[chosen])),
        )


def note_uninitialized_shared(f: Frame, site: Site, index: Index, active: Active) -> None:
    uninitialized = f.shared.uninitialized(site.size, index)
    if uninitialized is not None:
        lane = int(np.argmax(uninitialized))
        offset = int(index[lane]) * site.size - int(select(f.shared.origin, active, f.shape)[lane])
        f.note_uninitialized(
            site.instruction,
            site.size,
            lane_number(active, lane),
            lambda: f"offset {offset} of shared memory",
        )


def arena_of(f: Frame, space: str) -> Arena:
    return {"shared": f.shared, "local": f.local, "param": f.params}[space]


def fetch_arena(f: Frame, site: Site, space: str, address: Array, active: Active) -> Array:
    arena = arena_of(f, space)
    if space == "param" and address.size == 1 and address[0, 0] <= arena.limit - site.size:
        at = int(address[0, 0])
        data = arena.data[at : at + site.size]
        return np.array(data).view(arena.items(site.size).dtype).reshape(1, 1)
    index = arena.locate(f, site, address, active)
    if space == "shared":
        if f.counters is not None:
            f.counters.shared_access(site, address, active)
        if f.copies is not None:
            f.copies.check_arrived(f, site, index, active)
        if f.races is not None:
            f.races.read(f, site, index, active)
        if site.decides:
            meet_all(f, active)
        note_uninitialized_shared(f, site, index, active)
    elif space == "local" and f.counters is not None and not site.in_registers:
        f.counters.local_access(site, address, active)
    return spread(arena.items(site.size).take(index), active, f.shape)


@family("st")
def store(code: Code) -> Step:
    form = _Form(code, code.operand(0), writes=True)
    code.count(2)
    address = address_reader(code, code.operand(0))
    reads = [code.reader(part, form.element) for part in form.parts(code, code.operand(1))]
    put = putter(form.space, form.site)
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if active.count:
            values = _gathered(f, reads, form.element, active)
            put(f, address(f), values, active)

    return step


def _gathered(f: Frame, reads: list[Read], element: Any, active: Active) -> Array:
    """The items that the active lanes store: [active.count], raw."""
    if len(reads) == 1:
        value = select(reads[0](f), active, f.shape)
        return value.view(unsigned(element.itemsize * 8))
    rows = np.empty((active.count, len(reads)), element)
    for place, read in enumerate(reads):
        rows[:, place] = select(read(f), active, f.shape)
    size = element.itemsize * len(reads)
    return rows.view(np.complex128 if size == 16 else unsigned(size * 8)).reshape(-1)


Put = Callable[[Frame, Array, Array, Active], None]


def putter(space: str, site: Site) -> Put:
    if space == "global":
        return lambda f, a, values, active: put_global(f, site, a, values, active)
    if space in ("shared", "local"):
        return lambda f, a, values, active: put_arena(f, site, space, a, values, active)

    def generic(f: Frame, address: Array, values: Array, active: Active) -> None:
        everyone = spread(values, active, f.shape)
        for where, inner, lanes in spaces_of(f, address, active):
            part = select(everyone, lanes, f.shape)
            if where == "global":
                put_global(f, site, inner, part, lanes)
            else:
                put_arena(f, site, where, inner, part, lanes)

    return generic


def put_global(f: Frame, site: Site, address: Array, values: Array, active: Active) -> None:
    if f.counters is not None:
        f.counters.global_access(site, address, active)
    addresses = select(address, active, f.shape)
    if site.ordered:
        synchronise(f, site, addresses, active, flags=True)
    for region in global_regions(f, site, addresses, active, stores=True):
        if site.ordered and (posting := touch(f, site, region, addresses, active)):
            posting.post()
        chosen = values if region.chosen is None else values[region.chosen]
        _meet_bulk_copies(f, site, region, addresses, active, chosen)
        plain = site.ordered or claim_rows(f, site, region, active)
        noted: list[Touch | Access] = []
        if not plain and (touched := touch(f, site, region, addresses, active)):
            noted.append(touched)
        if not site.ordered and (accessed := warp_races.access(f, site, region, addresses, active)):
            noted.append(accessed)
        before = region.items.take(region.index) if noted else chosen
        region.items[region.index] = chosen
        after = region.items.take(region.index) if noted else chosen
        for each in noted:
            each.write(before, chosen, after)
        mark_stored(f, site, region, active)
        if f.counters is not None:
            f.counters.touch(site, region, addresses)
    if f.memory.watch is not None:
        note_store(f, f.memory.watch, site, addresses, active)


def _meet_bulk_copies(
    f: Frame, site: Site, region: BufferRegion, addresses: Array, active: Active, values: Array
) -> None:
    """Notes a store for bulk copies to come. Raises Fault where it changes what one may still be
    writing."""
    read_in_bulk = proxy_fences.watches(f, region)
    if read_in_bulk or region.buffer.unfinished is not None:
        changes = differ(region.items.take(region.index), values, site.float_type)
        check_finished(f, site, region, addresses, active, changes)
        if read_in_bulk:
            proxy_fences.stored(f, site, region, addresses, active, changes)


def note_store(f: Frame, watch: StoreWatch, site: Site, addresses: Array, active: Active) -> None:
    """Notes the store in the watch where it reaches the watched bytes: of several lanes that do,
    the last."""
    start, stop = np.uint64(watch.address), np.uint64(watch.address + watch.nbytes)
    reaching = np.flatnonzero((addresses < stop) & (addresses + np.uint64(site.size) > start))
    if reaching.size:
        watch.last = f.place(site.instruction, lane_number(active, int(reaching[-1])))


def put_arena(
    f: Frame, site: Site, space: str, address: Array, values: Array, active: Active
) -> None:
    arena = arena_of(f, space)
    index = arena.locate(f, site, address, active)
    items = arena.items(site.size)
    if space == "shared":
        arena.fill(site.size, index)
        if f.counters is not None:
            f.counters.shared_access(site, address, active)
        if f.bulk is not None:
            f.bulk.check_free(f, site, index, active)
    elif f.counters is not None and not site.in_registers:
        f.counters.local_access(site, address, active)
    if space == "shared" and f.races is not None:
        before = items[index]
        items[index] = values
        f.races.write(f, site, index, active, before, values, items[index])
    else:
        items[index] = values
