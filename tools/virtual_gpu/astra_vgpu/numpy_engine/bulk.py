"""cp.async.bulk: bulk copies between global and shared memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.isa.bulk_copies import (
    ALIGNMENT,
    BAD_SIZE,
    COPY_READS_AT_END,
    COPY_STILL_READING,
    Bulk,
    bulk_of,
)
from astra_vgpu.memory.buffers import Buffer
from astra_vgpu.memory.bulk_stores import (
    COPIED,
    FINISHED,
    PIECE_BITS,
    REDUCED,
    piece,
    unfinished_message,
)
from astra_vgpu.memory.early_accesses import early_message
from astra_vgpu.memory.proxy_fences import not_fenced_message
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.address_spaces import Site, lane_number, select
from astra_vgpu.numpy_engine.code import Code, Step
from astra_vgpu.numpy_engine.dtypes import dtype_of
from astra_vgpu.numpy_engine.first_touch import NO_ROUNDS
from astra_vgpu.numpy_engine.frame import Active, Frame
from astra_vgpu.numpy_engine.loads import address_reader
from astra_vgpu.numpy_engine.mbarrier_races import COPIES
from astra_vgpu.numpy_engine.mbarrier_state import (
    Event,
    Record,
    Target,
    ordering,
    target_of,
)
from astra_vgpu.numpy_engine.pending_copies import BULK, WORD, queue_of
from astra_vgpu.numpy_engine.rounding import flush
from astra_vgpu.ptx.syntax import Immediate, Instruction
from astra_vgpu.types import WARP_LANES

_REDUCE: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@dataclass
class _Reading:
    lane: int
    group: int
    words: slice
    instruction: Instruction
    pieces: NDArray[np.uint8] | None
    """Those of the buffer that it writes: bulk_stores.py."""
    read: bool = False
    """Whether it was waited for until it had read its shared memory."""


@dataclass
class BulkGroups:
    """Bulk copies of a batch out of shared memory."""

    committed: NDArray[np.int64]
    """Groups that each lane has closed."""
    read: NDArray[np.int32]
    """Copies that still read each word of the batch's shared memory."""
    readings: list[_Reading] = field(default_factory=list)

    def wait(self, lanes: NDArray[np.int64], most_pending: int, reads_only: bool) -> None:
        done = set(lanes.tolist())
        kept: list[_Reading] = []
        for reading in self.readings:
            closed = self.committed[reading.lane] - most_pending
            if reading.lane not in done or reading.group >= closed:
                kept.append(reading)
                continue
            if not reading.read:
                self.read[reading.words] -= 1
                reading.read = True
            if reading.pieces is not None and reads_only:
                kept.append(reading)
            elif reading.pieces is not None:
                reading.pieces[:] = FINISHED
        self.readings = kept

    def check_done(self, f: Frame) -> None:
        """All lanes have ended. Raises Fault."""
        if late := [reading for reading in self.readings if not reading.read]:
            first = min(late, key=lambda reading: reading.lane)
            where = first.instruction, "missing_wait", COPY_READS_AT_END, machine.LAUNCH_FAILURE
            raise f.fault(*where, first.lane)

    def check_free(self, f: Frame, site: Site, index: NDArray[np.int64], active: Active) -> None:
        """index: items of the site's size that each active lane writes. Raises Fault."""
        if not self.readings:
            return
        first, last = index * site.size // WORD, ((index + 1) * site.size - 1) // WORD
        met = self.read[first] + self.read[last] > 0
        for word in range(1, site.size // WORD - 1):
            met |= self.read[first + word] > 0
        if met.any():
            lane = int(np.argmax(met))
            origin = int(select(f.shared.origin, active, f.shape)[lane])
            offset = int(index[lane]) * site.size - origin
            raise _still_read(f, site, lane_number(active, lane), offset)


def _still_read(f: Frame, site: Site, lane: int, offset: int) -> Exception:
    message = f"{COPY_STILL_READING} (shared offset {offset})"
    return f.fault(site.instruction, "missing_wait", message, machine.LAUNCH_FAILURE, lane)


def _groups(f: Frame) -> BulkGroups:
    if f.bulk is None:
        f.bulk = BulkGroups(
            np.zeros(f.live.size, np.int64), np.zeros(f.shared.data.size // WORD + 1, np.int32)
        )
    return f.bulk


def bulk(code: Code) -> Step:
    form = bulk_of(code)
    active_lanes = code.active
    if form.action == "prefetch":
        return lambda f: None
    if form.action in ("commit", "wait"):
        left = 0
        if form.action == "wait":
            operand = code.operand(0)
            if not isinstance(operand, Immediate):
                raise code.refuse("a number of groups that is not a constant")
            left = operand.value

        def finish(f: Frame) -> None:
            lanes = np.flatnonzero(active_lanes(f).mask)
            if form.action == "commit":
                _groups(f).committed[lanes] += 1
            else:
                _groups(f).wait(lanes, left, form.reads_only)

        return finish
    return _copy(code, form)


@dataclass(frozen=True)
class _Span:
    """What one lane copies."""

    f: Frame
    lane: int
    size: int
    shared: int
    """Offset in the block's shared memory."""
    address: int
    """Address in global memory."""

    @property
    def row(self) -> int:
        return self.lane // self.f.shape[1]

    @property
    def warp(self) -> int:
        return self.lane % self.f.shape[1] // WARP_LANES

    @cached_property
    def place(self) -> slice:
        """The copied bytes, in the batch's shared memory."""
        start = int(self.f.shared.origin[self.row, 0]) + self.shared
        return slice(start, start + self.size)

    @cached_property
    def words(self) -> slice:
        return slice(self.place.start // WORD, self.place.stop // WORD)

    def check(self, reads: Site, writes: Site, to_shared: bool) -> Buffer:
        """The buffer in global memory. Raises Fault."""
        sides = [(reads, self.address), (writes, self.shared)]
        if not to_shared:
            sides = [(reads, self.shared), (writes, self.address)]
        for site, address in sides:
            if address % ALIGNMENT:
                what = f"{site.verb} of {self.size} bytes at address {address:#x}"
                raise self._fault(site, "misaligned", what, machine.MISALIGNED)
        if self.size % ALIGNMENT:
            what = BAD_SIZE.format(self.size)
            raise self._fault(reads, "misaligned", what, machine.MISALIGNED)
        on_chip, off_chip = (writes, reads) if to_shared else (reads, writes)
        buffer = self.f.memory.find(self.address)
        if buffer is None or self.address + self.size > buffer.address + buffer.nbytes:
            where = self.f.memory.describe(self.address)
            raise self._outside(off_chip, where)
        waited = self.f.waited
        if waited is not None and not waited.flat[self.lane] and buffer.early <= off_chip.writes:
            what = early_message(off_chip.verb, self.size, self.f.memory.place(self.address))
            raise self._fault(off_chip, "race", what, machine.LAUNCH_FAILURE)
        if to_shared and buffer.unfinished is not None and self.pieces(buffer).any():
            raise self.unfinished(reads)
        if to_shared:
            self.check_fenced(buffer, reads)
        if self.shared + self.size > self.f.shared.limit:
            raise self._outside(
                on_chip, f"shared offset {self.shared}; {self.f.shared.limit} bytes are there"
            )
        return buffer

    def pieces(self, buffer: Buffer) -> NDArray[np.uint8]:
        """Those of the bytes in global memory, of a buffer that has some."""
        assert buffer.unfinished is not None
        first = piece(buffer.address, self.address)
        return buffer.unfinished[first : first + (self.size >> PIECE_BITS)]

    def check_fenced(self, buffer: Buffer, site: Site) -> None:
        """Raises Fault where the copy may not see what the launch stored to the buffer."""
        fences, block = self.f.proxy_fences, int(self.f.blocks[self.row])
        if fences is None:
            return
        offset = fences.unfenced(buffer, block, self.address, self.size)
        if offset is not None:
            place = self.f.memory.place(buffer.address + offset)
            what = not_fenced_message(self.size, place)
            raise self._fault(site, "missing_fence", what, machine.LAUNCH_FAILURE)

    def unfinished(self, site: Site) -> Exception:
        place = self.f.memory.place(self.address)
        what = unfinished_message(site.verb, self.size, place)
        return self._fault(site, "missing_wait", what, machine.LAUNCH_FAILURE)

    def _outside(self, site: Site, where: str) -> Exception:
        what = f"{site.verb} of {self.size} bytes at {where}"
        return self._fault(site, "out_of_bounds", what, machine.ILLEGAL_ADDRESS)

    def _fault(self, site: Site, kind: str, what: str, error: int) -> Exception:
        return self.f.fault(site.instruction, kind, what, error, self.lane)


def _copy(code: Code, form: Bulk) -> Step:
    """Lane by lane: seldom more than one of a block copies."""
    to_shared = form.action == "to_shared"
    to, from_ = address_reader(code, code.operand(0)), address_reader(code, code.operand(1))
    on_chip, off_chip = (to, from_) if to_shared else (from_, to)
    sizes = code.read(2, "u32")
    reads = Site(code.instruction, ALIGNMENT, writes=False)
    writes = Site(code.instruction, ALIGNMENT, writes=True)
    target = target_of(code, code.operand(3), False) if to_shared else None
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        values = [select(read(f), active, f.shape) for read in (sizes, on_chip, off_chip)]
        mbarriers = None if target is None else target.index(f, active)
        for at, lane in enumerate(np.flatnonzero(active.mask)):
            span = _Span(f, int(lane), *(int(value[at]) for value in values))
            buffer = span.check(reads, writes, to_shared)
            if target is None or mbarriers is None:
                _to_global(span, buffer, reads, writes, form)
            else:
                _to_shared(span, buffer, reads, writes, target, int(mbarriers[at]))

    return step


def _to_shared(
    span: _Span, buffer: Buffer, reads: Site, writes: Site, target: Target, word: int
) -> None:
    """The bytes are read now, and have arrived when the mbarrier's phase ends."""
    f = span.f
    record, _ = target.record(f, word, span.lane)
    start = span.address - buffer.address
    data = buffer.data[start : start + span.size].copy()
    rounds = NO_ROUNDS
    if f.counters is not None:
        rounds = f.counters.span(buffer, span.address, span.size, span.lane, writes=False)
    if f.bulk is not None and f.bulk.read[span.words].any():
        raise _still_read(f, writes, span.lane, span.shared)
    order = ordering(f)
    if order is not None:
        order.check_copy(f, writes, span.lane, span.place, f.shared.data[span.place] != data)
    queue = queue_of(f)
    queue.bulk += 1
    queue.flying[span.words] += BULK
    record.events.append(Event(0, span.size, partial(_land, span=span, data=data), rounds))


def _land(f: Frame, record: Record, span: _Span, data: NDArray[np.uint8]) -> None:
    queue = queue_of(f)
    queue.bulk -= 1
    queue.flying[span.words] -= BULK
    f.shared.data[span.place] = data
    if f.shared.filled is not None:
        f.shared.filled[span.place] = 1
    order = ordering(f)
    if order is not None:
        clock = np.zeros(COPIES + 1, np.int64)
        clock[COPIES] = order.copied(span.row, order.granules(span.place.start, span.place.stop))
        record.join(clock)


def _to_global(span: _Span, buffer: Buffer, reads: Site, writes: Site, form: Bulk) -> None:
    """The bytes are written now; those in shared memory count as read until the group is waited
    for."""
    f = span.f
    if f.copies is not None:
        f.copies.check_span(f, reads, span.words, span.lane, span.shared)
    order = ordering(f)
    if order is not None:
        order.read_by_copy(f, reads, span.lane, span.place)
    data = f.shared.data[span.place]
    start = span.address - buffer.address
    there = buffer.data[start : start + span.size]
    pieces = None if buffer.unfinished is None else span.pieces(buffer)
    if pieces is not None:
        if form.reduction and (pieces == COPIED).any():
            raise span.unfinished(writes)
        pieces[:] = REDUCED if form.reduction else COPIED
    if form.reduction:
        span.check_fenced(buffer, writes)
        dtype = dtype_of(form.type)
        items: Any = there.view(dtype)
        more = data.view(dtype)
        if form.type == "f32":  # as by atomics of global memory
            items[:] = flush(flush(items) + flush(more))
        else:
            _REDUCE[form.reduction](items, more, out=items)
    else:
        there[:] = data
    buffer.mark_span(start, span.size)
    watch = f.memory.watch
    if watch is not None and -span.size < span.address - watch.address < watch.nbytes:
        watch.last = f.place(writes.instruction, span.lane)
    if f.memory.spans is not None:
        row = f.blocks[span.row : span.row + 1]
        f.memory.spans.note(f.launch, buffer, row, np.array([start]), span.size)
    if f.counters is not None:
        f.counters.span(buffer, span.address, span.size, span.lane, writes=True)
    groups = _groups(f)
    groups.read[span.words] += 1
    group = int(groups.committed[span.lane])
    groups.readings.append(_Reading(span.lane, group, span.words, reads.instruction, pieces))
