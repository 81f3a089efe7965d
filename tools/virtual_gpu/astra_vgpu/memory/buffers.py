"""Device memory: host arrays at their own addresses, each registered at its exact size."""

from __future__ import annotations

import bisect
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.memory import early_accesses
from astra_vgpu.memory.heap import DEFAULT_BYTES, Heap
from astra_vgpu.memory.heap import NAME as HEAP_NAME
from astra_vgpu.memory.sparse import zeroed

if TYPE_CHECKING:
    from astra_vgpu.memory.block_races import Cells
    from astra_vgpu.memory.stored_spans import StoredSpans

MEMBER_BYTES = 8
"""Shorter gaps may lie between the members of a structure."""
STRUCTURE_BYTES = 128
"""Largest size of structures whose gaps are expected: two such gaps lie no farther apart."""
PITCH_BYTES = 512
"""What cudaMallocPitch rounds rows up to."""


def unwritten(written: NDArray[np.bool_], start: int) -> tuple[int, int]:
    """How many bytes nothing wrote, and where the first of them is.

    written: by byte of the copy, which begins `start` bytes into its buffer. Left aside are gaps
    that the padding of structures leaves, and equal ones at the ends of rows of pitched memory.
    """
    if written.all():
        return 0, 0
    edges = np.flatnonzero(np.diff(written, prepend=True, append=True))
    begins, ends = edges[::2], edges[1::2]
    told = ~(_between_members(begins, ends, written.size) | _behind_rows(begins, ends, start))
    if not told.any():
        return 0, 0
    return int((ends - begins)[told].sum()), int(begins[told][0])


def _between_members(
    begins: NDArray[np.intp], ends: NDArray[np.intp], copied: int
) -> NDArray[np.bool_]:
    small = ends - begins < MEMBER_BYTES
    if copied <= STRUCTURE_BYTES:
        return small
    near = (np.diff(begins) <= STRUCTURE_BYTES) & small[1:] & small[:-1]
    return np.asarray(np.append(near, False) | np.append(False, near))


def _behind_rows(begins: NDArray[np.intp], ends: NDArray[np.intp], start: int) -> NDArray[np.bool_]:
    at_row_ends = (ends + start) % PITCH_BYTES == 0
    large = ends - begins >= MEMBER_BYTES
    equal = np.unique((ends - begins)[large]).size == 1 and np.count_nonzero(large) > 1
    return np.asarray(large & at_row_ends & equal)


KEPT_FREED = 4096
"""Freed buffers that messages know, the latest."""
Bytes = NDArray[np.uint8]
Items = NDArray[Any]

_ITEM: dict[int, Any] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype(np.complex128),
}
"""A dtype that moves this many bytes at once; complex128 is only a 16-byte box here."""


def items_of(data: Bytes, size: int, address: int) -> tuple[Items, int]:
    """`data`, whose first byte lies at `address`, as items of 1, 2, 4, 8 or 16 bytes that begin at
    multiples of their size, and the address of the first item."""
    skip = -address % size
    count = max(data.size - skip, 0) // size
    return data[skip : skip + count * size].view(_ITEM[size]), address + skip


def missing(flags: Items) -> NDArray[np.bool_] | None:
    """Items of one-byte flags, 0 or 1: those in which any is 0; None where there is none."""
    size = flags.dtype.itemsize
    bits = flags.view(_ITEM[min(size, 8)])
    gaps = bits != np.ones(min(size, 8), np.uint8).view(_ITEM[min(size, 8)])[0]
    if not gaps.any():
        return None
    return np.asarray(gaps.reshape(-1, 2).any(axis=1) if size == 16 else gaps)


@dataclass
class StoreWatch:
    """Bytes of device memory, and what stored to them last; by the NumPy engine alone."""

    address: int
    nbytes: int
    last: str = ""
    """File and line where they are known, else the line of the PTX; then block and thread. Empty
    until an instruction has stored."""


@dataclass(frozen=True)
class Freed:
    """Where a buffer was that the host code freed."""

    address: int
    nbytes: int
    name: str


@dataclass(eq=False)
class Buffer:
    """One registered array. `data` is a view of it: uint8 [nbytes]."""

    address: int
    nbytes: int
    name: str
    data: Bytes
    written: NDArray[np.bool_] | None = None
    """Which bytes were stored to since tracking began; None while it is off."""
    cells: Cells | None = None
    """Cells of the check for races between blocks, while a launch runs that may store here."""
    starts_uninitialized: bool = False
    """Whether it was uninitialized when tracking began."""
    early: int = early_accesses.NOTHING
    """What a thread may do here before it has waited for the work ahead of its launch."""
    allocated: Bytes | None = None
    """Whether each byte of the device's heap may be touched; None for other buffers."""
    unfinished: NDArray[np.uint8] | None = None
    """What each 16 bytes wait for, while a launch runs that copies here in bulk: bulk_stores.py."""
    _views: dict[int, tuple[Items, int]] = field(default_factory=dict)

    def items(self, size: int) -> tuple[Items, int]:
        """The memory as items of `size` bytes, and the address of the first."""
        if size not in self._views:
            self._views[size] = items_of(self.data, size, self.address)
        return self._views[size]

    def uninitialized(self, size: int, index: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Which of these items hold an uninitialized byte; None for none of them."""
        if not self.starts_uninitialized or self.written is None:
            return None
        flags = items_of(self.written.view(np.uint8), size, self.address)[0].take(index)
        return missing(flags)

    def mark_written(self, size: int, index: NDArray[Any]) -> None:
        """Notes a store to items of `size` bytes; nothing while tracking is off."""
        if self.written is not None:
            flags = items_of(self.written.view(np.uint8), size, self.address)[0]
            flags[index] = np.ones(size, np.uint8).view(_ITEM[size])[0]

    def is_unwritten(self, start: int, nbytes: int) -> bool:
        """Whether nothing has written to any of these bytes, as far as that is known."""
        if not self.starts_uninitialized or self.written is None:
            return False
        return not self.written[start : start + nbytes].any()

    def unwritten(self, start: int, nbytes: int) -> tuple[int, int]:
        """How many of these bytes nothing wrote, as far as that is known, and the first of them."""
        if not self.starts_uninitialized or self.written is None:
            return 0, 0
        count, first = unwritten(self.written[start : start + nbytes], start)
        return count, start + first

    def mark_span(self, start: int, nbytes: int) -> None:
        """Notes a store to bytes in a row."""
        if self.written is not None:
            self.written[start : start + nbytes] = True


class Memory:
    """The buffers that kernels may touch. Nothing is copied: arrays stay where they are."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._buffers: list[Buffer] = []
        self._freed: deque[Freed] = deque(maxlen=KEPT_FREED)
        self._tracking = False
        self._heap: Heap | None = None
        self._heap_bytes = DEFAULT_BYTES
        self.spans: StoredSpans | None = None
        """Where blocks stored to, as far as the NumPy engine ran them; None: nobody asks."""
        self.descending = False
        """Whether atomics are served from the last thread and block to the first, an order that a
        GPU may have as well; by the NumPy engine alone."""
        self.watch: StoreWatch | None = None

    @property
    def heap(self) -> Heap:
        """The device's own heap; made on first use."""
        if self._heap is None:
            self._heap = Heap(self._heap_bytes)
            everything = early_accesses.EVERYTHING
            self.add(self._heap.array, HEAP_NAME, uninitialized=True, early=everything)
            buffer = self.find(self._heap.address)
            assert buffer is not None
            buffer.allocated, self._heap.written = self._heap.allocated, buffer.written
        return self._heap

    @property
    def has_heap(self) -> bool:
        return self._heap is not None

    def limit_heap(self, nbytes: int) -> bool:
        """How large the heap will be; False if it is there already."""
        if self._heap is not None:
            return False
        self._heap_bytes = max(nbytes, 1 << 10)
        return True

    def drop_heap(self) -> None:
        if self._heap is not None:
            self.remove(self._heap.address)
            self._heap = None

    def add(
        self,
        array: NDArray[Any],
        name: str,
        *,
        uninitialized: bool = False,
        early: int = early_accesses.NOTHING,
    ) -> int:
        """Registers a C-contiguous array at its exact byte size; returns its device address.

        uninitialized: it holds nothing yet that a kernel may read. early: of early_accesses.py.

        Raises ValueError if it is not contiguous or overlaps a registered buffer.
        """
        if not array.flags.c_contiguous:
            raise ValueError(f"buffer {name} is not contiguous")
        address = int(array.ctypes.data)
        data = array.reshape(-1).view(np.uint8)
        at = bisect.bisect_left(self._starts, address)
        before = self._buffers[at - 1] if at else None
        after = self._buffers[at] if at < len(self._buffers) else None
        if (before and before.address + before.nbytes > address) or (
            after and (after.address < address + data.nbytes or after.address == address)
        ):
            raise ValueError(f"buffer {name} overlaps a registered buffer")
        buffer = Buffer(
            address, data.nbytes, name, data, starts_uninitialized=uninitialized, early=early
        )
        if self._tracking:
            buffer.written = zeroed(data.nbytes).view(np.bool_)
        self._starts.insert(at, address)
        self._buffers.insert(at, buffer)
        return address

    def remove(self, address: int, *, freed: bool = False) -> None:
        """Forgets the buffer that begins at `address`, or, if the host code freed it, keeps its
        place for messages. Raises KeyError if none begins there."""
        at = bisect.bisect_left(self._starts, address)
        if at == len(self._starts) or self._starts[at] != address:
            raise KeyError(f"no buffer begins at {address:#x}")
        buffer = self._buffers[at]
        if freed:
            self._freed.appendleft(Freed(address, buffer.nbytes, buffer.name))
        del self._starts[at], self._buffers[at]

    def find(self, address: int) -> Buffer | None:
        """The buffer that holds the byte at `address`."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        buffer = self._buffers[at]
        return buffer if address < buffer.address + buffer.nbytes else None

    @property
    def buffers(self) -> list[Buffer]:
        """All of them, ordered by address."""
        return list(self._buffers)

    def track_writes(self, on: bool) -> None:
        """Begins again to note which bytes are stored to, or stops."""
        self._tracking = on
        for buffer in self._buffers:
            if buffer.starts_uninitialized and (buffer.written is None or buffer.written.any()):
                buffer.starts_uninitialized = False  # what was written before is forgotten now
            buffer.written = zeroed(buffer.nbytes).view(np.bool_) if on else None
            if self._heap is not None and buffer.allocated is not None:
                self._heap.written = buffer.written

    def stored_to(self, address: int) -> bool:
        """Whether any byte of the buffer at this address was stored to since tracking began."""
        buffer = self.find(address)
        return buffer is not None and buffer.written is not None and bool(buffer.written.any())

    def place(self, address: int) -> str:
        """Buffer and offset of an address that lies in a buffer."""
        buffer = self.find(address)
        if buffer is None:
            return self.describe(address)
        return f"offset {address - buffer.address} of {buffer.name} ({buffer.nbytes} bytes)"

    def describe(self, address: int) -> str:
        """Where an address lies, for a message: the nearest buffer and the offset in it."""
        if address < 4096:
            return f"address {address:#x} (a null pointer)"
        inside = self.find(address)
        if inside is not None and inside.allocated is not None:
            return f"address {address:#x} of {inside.name}, which is not allocated, or was freed"
        for freed in self._freed:
            if freed.address <= address < freed.address + freed.nbytes:
                return (
                    f"address {address:#x}, a use after free: offset {address - freed.address} of"
                    f" {freed.name} of {freed.nbytes} bytes, which was freed"
                )
        if not self._buffers:
            return f"address {address:#x}; no buffer is registered"
        nearest = min(self._buffers, key=lambda b: _distance(b, address))
        offset = address - nearest.address
        return (
            f"address {address:#x}; nearest buffer: {nearest.name} of {nearest.nbytes} bytes, "
            f"offset {offset}"
        )


def _distance(buffer: Buffer, address: int) -> int:
    return max(buffer.address - address, address - (buffer.address + buffer.nbytes - 1), 0)
