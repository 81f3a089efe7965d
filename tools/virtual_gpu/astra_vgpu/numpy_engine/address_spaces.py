"""Address spaces: addresses to buffers of global memory, or to shared, local and parameter memory.

Generic addresses carry their space in the high bits, far above any host address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.lowering.shared_arrays import SharedArray, outside_arrays
from astra_vgpu.lowering.store_merging import ALONE
from astra_vgpu.memory.buffers import Buffer, Bytes, Items, items_of, missing
from astra_vgpu.memory.bulk_stores import PIECE_BITS, unfinished_message
from astra_vgpu.memory.early_accesses import early_message
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import Active, Frame, Mask
from astra_vgpu.ptx.syntax import Address, Instruction, Operand, Register
from astra_vgpu.types import NAN_BITS

WINDOWS = {"shared": 1 << 56, "local": 1 << 57, "param": 1 << 58}
"""Where each space begins among the generic addresses."""
_FIRST_WINDOW = min(WINDOWS.values())
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Site:
    """One memory instruction, as far as faults and counters care."""

    instruction: Instruction
    size: int
    """Bytes of one lane's access: 1 to 16, a power of two."""
    writes: bool
    ordered: bool = False
    """Volatile, relaxed or atomic: it may meet other warps' accesses without being a race."""
    loose: bool = False
    """Ordered because the kernel looks in loops: ordered_accesses.is_loose."""
    decides: bool = False
    """A loose load that looks at a flag."""
    blind: bool = False
    """An atomic operation that does not look at what it replaces."""
    floats: bool = False
    """An atomic operation on floats."""
    counts: bool = False
    """An atomic addition of one."""
    constant: bool = False
    """A load of constant memory or of parameters whose address is in a register."""
    levels: tuple[int, ...] = ()
    """Round of its region in which a global load is waited for, for each turn that is unrolled."""
    in_registers: bool = False
    """Whether it is of local memory that the machine keeps in registers."""
    run: tuple[int, ...] = ALONE
    """Offsets in bytes of the run of stores that begins here; empty further on in a run:
    store_merging.store_runs."""
    float_type: str = ""
    """Float type of what a store writes, or "" for anything else: float_stores.float_stores."""
    sums: bool = False
    """An atomic update whose result nothing reads: ordered_accesses.unread_updates."""
    reads_data: bool = False
    """An atomic operation or ordered load that looks at no flag: data_reads.data_reads."""

    @property
    def releases(self) -> bool:
        """What came before is visible to all that see it."""
        return bool({"release", "acq_rel"}.intersection(self.instruction.modifiers))

    @property
    def verb(self) -> str:
        return "write" if self.writes else "read"


@dataclass
class Arena:
    """On-chip or per-thread memory of a batch: equal pieces, one for each block or lane."""

    name: str
    data: Bytes
    origin: Array
    """First byte of a lane's piece in `data`: int64, broadcastable to lanes."""
    limit: int
    """Bytes of a piece that may be touched."""
    reserved_at: int = 0
    """Where the part begins that is not the kernel's own; 0: there is none."""
    filled: Bytes | None = None
    """1 for each byte that a store has written; None: not tracked."""
    reached: Mapping[int, tuple[SharedArray, ...]] = field(default_factory=dict)
    """Shared arrays that an instruction may access, by its id(): shared_arrays.reached_arrays."""

    def items(self, size: int) -> Items:
        return items_of(self.data, size, 0)[0]

    def fill(self, size: int, index: Index) -> None:
        """Notes a store to items of `size` bytes."""
        if self.filled is not None:
            ones = np.ones(size, np.uint8)
            flags = items_of(self.filled, size, 0)[0]
            flags[index] = ones.view(flags.dtype)[0]

    def uninitialized(self, size: int, index: Index) -> NDArray[np.bool_] | None:
        """Which of these items hold an uninitialized byte; None for none of them."""
        if self.filled is None:
            return None
        return missing(items_of(self.filled, size, 0)[0].take(index))

    def locate(self, f: Frame, site: Site, address: Array, active: Active) -> Index:
        """Index into `items(site.size)` for each active lane, in order. Raises Fault."""
        offsets = select(address, active, f.shape)
        highest = int(offsets.max())
        if highest + site.size > self.limit:
            lane = int(np.argmax(offsets > self.limit - site.size))
            raise f.fault(
                site.instruction,
                "out_of_bounds",
                f"{site.verb} of {site.size} bytes at {self.name} offset {int(offsets[lane])}; "
                f"{self.limit} bytes are there",
                machine.ILLEGAL_ADDRESS,
                lane_number(active, lane),
            )
        if arrays := self.reached.get(id(site.instruction)):
            _check_arrays(f, site, arrays, offsets, active)
        check_aligned(f, site, offsets, active)
        index = select(self.origin, active, f.shape) + offsets.astype(np.int64)
        return index >> (site.size.bit_length() - 1)


def _check_arrays(
    f: Frame, site: Site, arrays: Sequence[SharedArray], offsets: Array, active: Active
) -> None:
    """Raises Fault for an access beyond the array that its address was computed from, even where
    another one lies there."""
    start, size = offsets.astype(np.int64), site.size
    inside = [
        (start >= array.start) & (array.end is None or start + size <= array.end)
        for array in arrays
    ]
    beyond = ~np.logical_or.reduce(inside)
    if beyond.any():
        lane = int(np.argmax(beyond))
        raise f.fault(
            site.instruction,
            "out_of_bounds",
            outside_arrays(f"{site.verb} of {size} bytes", int(offsets[lane]), arrays),
            machine.ILLEGAL_ADDRESS,
            lane_number(active, lane),
        )


def make_arena(
    name: str, pieces: int, limit: int, origin_shape: tuple[int, int], left_there: int = NAN_BITS
) -> Arena:
    """Memory for `pieces` blocks or lanes, which holds these 16 bits over and over."""
    stride = -(-max(limit, 1) // 16) * 16
    raw = np.full(pieces * stride // 2 + 8, left_there, np.uint16).view(np.uint8)
    data = raw[-raw.ctypes.data % 16 :][: pieces * stride]
    origin = (np.arange(pieces, dtype=np.int64) * stride).reshape(origin_shape)
    return Arena(name, data, origin, limit)


def select(value: Array, active: Active, shape: tuple[int, int]) -> Array:
    """The value of each active lane, in order: shape [active.count]."""
    full = np.broadcast_to(value, shape)
    return full.reshape(-1) if active.dense else full[active.mask]


def spread(values: Array, active: Active, shape: tuple[int, int]) -> Array:
    """The inverse of `select`; other lanes get zeros."""
    if active.dense:
        return values.reshape(shape)
    out = np.zeros(shape, values.dtype)
    out[active.mask] = values
    return out


def lane_number(active: Active, lane: int) -> int:
    """Position in the batch of the `lane`-th active lane."""
    return int(np.flatnonzero(active.mask)[lane])


def check_aligned(f: Frame, site: Site, addresses: Array, active: Active) -> None:
    mask = addresses.dtype.type(site.size - 1)
    if mask and np.bitwise_or.reduce(addresses) & mask:
        lane = int(np.argmax((addresses & mask) != 0))
        raise f.fault(
            site.instruction,
            "misaligned",
            f"{site.verb} of {site.size} bytes at address {int(addresses[lane]):#x}",
            machine.MISALIGNED,
            lane_number(active, lane),
        )


@dataclass(frozen=True)
class BufferRegion:
    """Part of an access: lanes whose addresses lie in one buffer."""

    buffer: Buffer
    items: Items
    index: Index
    chosen: NDArray[Any] | None
    """Which of the active lanes; None means all."""


def global_regions(
    f: Frame, site: Site, addresses: Array, active: Active, *, stores: bool = False
) -> Iterator[BufferRegion]:
    """Splits an access to global memory by buffer. Raises Fault out of bounds or misaligned, and
    where a thread should have waited for the work ahead of the launch, or for a bulk copy, first.

    addresses: uint64 [active.count], or one for all. stores: who stores calls check_finished.
    """
    for region in _regions(f, site, addresses, active):
        if f.waited is not None and region.buffer.early <= site.writes:
            _check_waited(f, f.waited, site, region, addresses, active)
        if not stores:
            check_finished(f, site, region, addresses, active)
        yield region


def _check_waited(
    f: Frame, waited: Mask, site: Site, region: BufferRegion, addresses: Array, active: Active
) -> None:
    late = ~select(waited, active, f.shape)
    if region.chosen is not None and addresses.size == active.count:
        late = late[region.chosen]
    if late.any():
        at = int(np.argmax(late))
        lane = at if region.chosen is None else int(region.chosen[at])
        address = int(addresses.flat[lane if addresses.size == active.count else 0])
        message = early_message(site.verb, site.size, f.memory.place(address))
        where = site.instruction, "race", message, machine.LAUNCH_FAILURE
        raise f.fault(*where, lane_number(active, lane))


def check_finished(
    f: Frame,
    site: Site,
    region: BufferRegion,
    addresses: Array,
    active: Active,
    changes: NDArray[np.bool_] | bool = True,
) -> None:
    """Raises Fault where a bulk copy may still be writing: bulk_stores.py. changes: which lanes'
    accesses matter."""
    chosen, pieces = region.chosen, region.buffer.unfinished
    if pieces is None:
        return
    mine = addresses.reshape(-1) if chosen is None else addresses.reshape(-1)[chosen]
    first = np.uint64(region.buffer.address >> PIECE_BITS)
    late = (pieces[(mine >> np.uint64(PIECE_BITS)) - first] != 0) & changes
    if late.any():
        at = int(np.argmax(late))
        message = unfinished_message(site.verb, site.size, f.memory.place(int(mine[at])))
        lane = lane_number(active, at if chosen is None else int(chosen[at]))
        raise f.fault(site.instruction, "missing_wait", message, machine.LAUNCH_FAILURE, lane)


def _regions(f: Frame, site: Site, addresses: Array, active: Active) -> Iterator[BufferRegion]:
    check_aligned(f, site, addresses, active)
    low, high = int(addresses.min()), int(addresses.max())
    buffer = f.memory.find(low)
    if buffer is not None and high + site.size <= buffer.address + buffer.nbytes:
        if buffer.allocated is not None:
            _check_allocated(f, site, buffer, addresses, None, active)
        yield _region(buffer, site, addresses, None)
        return
    rest = np.arange(addresses.size)
    regions: list[BufferRegion] = []
    while rest.size:
        address = int(addresses[rest[0]])
        buffer = f.memory.find(address)
        if buffer is None or address + site.size > buffer.address + buffer.nbytes:
            raise f.fault(
                site.instruction,
                "out_of_bounds",
                f"{site.verb} of {site.size} bytes at {f.memory.describe(address)}",
                machine.ILLEGAL_ADDRESS,
                lane_number(active, int(rest[0])),
            )
        ends = np.uint64(buffer.address + buffer.nbytes - site.size)
        inside = (addresses[rest] >= np.uint64(buffer.address)) & (addresses[rest] <= ends)
        if buffer.allocated is not None:
            _check_allocated(f, site, buffer, addresses[rest[inside]], rest[inside], active)
        regions.append(_region(buffer, site, addresses[rest[inside]], rest[inside]))
        rest = rest[~inside]
    yield from regions


def mark_stored(f: Frame, site: Site, region: BufferRegion, active: Active) -> None:
    """Notes that these lanes stored to a buffer."""
    region.buffer.mark_written(site.size, region.index)
    if f.memory.spans is not None:
        rows = np.nonzero(active.mask)[0]
        rows = rows if region.chosen is None else rows[region.chosen]
        starts = region.index * site.size + -region.buffer.address % site.size
        f.memory.spans.note(f.launch, region.buffer, f.blocks[rows], starts, site.size)


def _check_allocated(
    f: Frame,
    site: Site,
    buffer: Buffer,
    addresses: Array,
    chosen: NDArray[Any] | None,
    active: Active,
) -> None:
    """Raises Fault for an access to bytes of the device's heap that are not allocated."""
    assert buffer.allocated is not None
    start = (addresses - np.uint64(buffer.address)).view(np.int64)
    there = start[:, None] + np.arange(site.size)
    bad = np.flatnonzero((buffer.allocated[there] == 0).any(axis=1))
    if bad.size:
        lane = int(bad[0] if chosen is None else chosen[bad[0]])
        what = f.memory.describe(int(addresses[bad[0]]))
        raise f.fault(
            site.instruction,
            "out_of_bounds",
            f"{site.verb} of {site.size} bytes at {what}",
            machine.ILLEGAL_ADDRESS,
            lane_number(active, lane),
        )


def _region(
    buffer: Buffer, site: Site, addresses: Array, chosen: NDArray[Any] | None
) -> BufferRegion:
    items, first = buffer.items(site.size)
    shift = np.uint64(site.size.bit_length() - 1)
    index = ((addresses - np.uint64(first)) >> shift).view(np.int64)
    return BufferRegion(buffer, items, index, chosen)


def spaces_of(f: Frame, address: Array, active: Active) -> Iterator[tuple[str, Array, Active]]:
    """Splits generic addresses by space: (space, address in that space, lanes). Those beyond every
    window are global memory's, which has nothing there."""
    values = select(address, active, f.shape)
    if int(values.max()) < _FIRST_WINDOW:
        yield "global", address, active
        return
    window = np.broadcast_to(address, f.shape) >> np.uint64(56)
    masks = {s: active.mask & (window == np.uint64(start >> 56)) for s, start in WINDOWS.items()}
    rest = active.mask & ~np.logical_or.reduce(list(masks.values()))
    for space, mask in {"global": rest, **masks}.items():
        count = int(np.count_nonzero(mask))
        if count:
            yield space, address - np.uint64(WINDOWS.get(space, 0)), Active(mask, count)


def reads_constants(space: str, address: Operand) -> bool:
    """Whether a load is of constant memory or parameters, at an address that lanes may differ in:
    one by name is a constant of the machine code."""
    computed = isinstance(address, Address) and isinstance(address.base, Register)
    return computed and space in ("const", "param")
