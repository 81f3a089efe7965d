"""mbarrier instructions except the tests (mbarrier_waits.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.isa import mbarriers as shared
from astra_vgpu.isa.mbarriers import MOST, SIZE, Form, MbarrierState, form_of
from astra_vgpu.numpy_engine.address_spaces import (
    WINDOWS,
    select,
    spread,
)
from astra_vgpu.numpy_engine.code import Code, Read, Step, family
from astra_vgpu.numpy_engine.first_touch import NO_ROUNDS, Rounds
from astra_vgpu.numpy_engine.frame import Active, Frame
from astra_vgpu.numpy_engine.mbarrier_state import (
    Event,
    Record,
    Target,
    barriers_of,
    ordering,
    target_of,
    warp_of,
)
from astra_vgpu.types import WARP_LANES

Lanes = NDArray[np.int64]
"""Positions in the batch."""


@family("mbarrier")
def mbarrier(code: Code) -> Step:
    form = form_of(code)
    if form.action == "pending_count":
        write, token = code.write(0, "b32"), code.read(1, "b64")
        return lambda f: write(f, (token(f) & np.uint64(MOST)).astype(np.uint32))
    place = 1 if form.action.startswith("arrive") else 0
    target = target_of(code, code.operand(place), form.space == "")
    if form.action == "inval":
        return _each(code, target, None, _invalidate)
    counted = len(code.operands) > place + 1
    counts = code.read(place + 1, "u32") if counted else None
    if form.action == "init":
        return _each(code, target, counts, _init)
    if form.action.endswith("_tx"):
        sign = 1 if form.action == "expect_tx" else -1
        return _each(code, target, counts, _bytes(sign))
    return _arriving(code, form, target, counts)


def _each(
    code: Code,
    target: Target,
    counts: Read | None,
    act: Callable[[Frame, Target, int, int, int], None],
) -> Step:
    """Lane by lane: few do such things."""
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        lanes, words = np.flatnonzero(active.mask), target.index(f, active)
        _count(f, target, active)
        values = lanes if counts is None else select(counts(f), active, f.shape)
        for lane, word, value in zip(lanes, words, values, strict=True):
            act(f, target, int(lane), int(word), int(value))

    return step


def _count(f: Frame, target: Target, active: Active) -> None:
    if f.counters is not None:
        address = target.address(f)
        if target.generic:
            address = address - np.uint64(WINDOWS["shared"])
        f.counters.shared_access(target.site, address, active)


def _init(f: Frame, target: Target, lane: int, word: int, count: int) -> None:
    if not 1 <= count <= MOST:
        raise target.misused(f, lane, shared.BAD_COUNT)
    row, warp = warp_of(f, lane)
    order = ordering(f)
    clock = None if order is None else order.release(row, warp, 1 << lane % WARP_LANES)
    time = 0 if clock is None else int(clock[warp])
    barriers_of(f).records[word] = Record(word, row, warp, time)
    f.shared.items(SIZE)[word] = MbarrierState(count, count, 0, 0).word


def _invalidate(f: Frame, target: Target, lane: int, word: int, _: int) -> None:
    record, _state = target.record(f, word, lane)
    barriers_of(f).settle(f, record)
    f.shared.items(SIZE)[word] = np.iinfo(np.uint64).max
    del barriers_of(f).records[word]


def _bytes(sign: int) -> Callable[[Frame, Target, int, int, int], None]:
    def act(f: Frame, target: Target, lane: int, word: int, count: int) -> None:
        record, state = target.record(f, word, lane)
        expect(f, target, lane, state, sign * count)
        record.turn(state)
        f.shared.items(SIZE)[word] = state.word

    return act


def expect(f: Frame, target: Target, lane: int, state: MbarrierState, count: int) -> None:
    state.bytes += count
    if not -MOST <= state.bytes <= MOST:
        raise target.misused(f, lane, shared.TOO_MANY_BYTES)


def _arriving(code: Code, form: Form, target: Target, counts: Read | None) -> Step:
    """The state before the arrival is its result."""
    write = code.write(0, "b64")
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        words = target.index(f, active)
        _count(f, target, active)
        lanes = np.flatnonzero(active.mask)
        numbers = np.ones(active.count, np.int64)
        if counts is not None:
            numbers = select(counts(f), active, f.shape).astype(np.int64)
        tokens = np.zeros(active.count, np.uint64)
        for chosen in groups(words):
            arrivals = _Arrivals(f, form, target, int(words[chosen[0]]))
            tokens[chosen] = arrivals.of(lanes[chosen], numbers[chosen])
        write(f, spread(tokens, active, f.shape))

    return step


def groups(words: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Positions of equal items, in order."""
    order = np.argsort(words, kind="stable")
    cuts = np.flatnonzero(np.diff(words[order])) + 1
    yield from np.split(order, cuts)


@dataclass
class _Arrivals:
    """Arrivals of some lanes at one mbarrier."""

    f: Frame
    form: Form
    target: Target
    word: int

    def of(self, lanes: Lanes, numbers: NDArray[np.int64]) -> Any:
        """The states before: uint64 [lanes]. numbers: of arrivals, or of bytes with expect_tx."""
        record, state = self.target.record(self.f, self.word, int(lanes[0]))
        if not self._simple(state, numbers):
            each = [self._one(int(lane), int(n)) for lane, n in zip(lanes, numbers, strict=True)]
            return np.array(each, np.uint64)
        before = (np.cumsum(numbers) - numbers).astype(np.uint64)
        tokens = np.uint64(state.token(record.phases)) - before
        for warp in np.unique(lanes // WARP_LANES).tolist():
            mine = lanes[lanes // WARP_LANES == warp]
            self.target.check_known(self.f, record, int(mine[0]))
            self._arrive(record, mine)
        total = int(numbers.sum())
        state.pending -= total
        state.expected -= total if self.form.action == "arrive_drop" else 0
        record.turn(state)
        self.f.shared.items(SIZE)[self.word] = state.word
        return tokens

    def _simple(self, state: MbarrierState, numbers: NDArray[np.int64]) -> bool:
        """Plain arrivals, of which the last may end the phase."""
        plain = not (self.form.expects or self.form.no_complete)
        return plain and bool((numbers > 0).all()) and int(numbers.sum()) <= state.pending

    def _arrive(self, record: Record, lanes: Lanes) -> None:
        """lanes: of one warp."""
        first = int(lanes[0])
        if self.f.counters is not None:
            loads = self.f.counters.first_touches.rounds_of(first // WARP_LANES)
            record.arrived = record.arrived.most(loads)
        order = ordering(self.f)
        if order is not None and not self.form.relaxed:
            record.join(order.release(*warp_of(self.f, first), lane_bits(lanes)))

    def _one(self, lane: int, number: int) -> int:
        f, target = self.f, self.target
        record, state = target.record(f, self.word, lane)
        if state.pending == 0:
            barriers_of(f).settle(f, record)
            record, state = target.record(f, self.word, lane)
        token = state.token(record.phases)
        count = 1 if self.form.expects else number
        if self.form.expects:
            expect(f, target, lane, state, number)
        if not 1 <= count <= MOST:
            raise target.misused(f, lane, shared.BAD_COUNT)
        if count > state.pending:
            raise target.misused(f, lane, shared.TOO_MANY)
        if self.form.no_complete and count == state.pending:
            raise target.misused(f, lane, shared.COMPLETES)
        self._arrive(record, np.array([lane]))
        state.pending -= count
        state.expected -= count if self.form.action == "arrive_drop" else 0
        record.turn(state)
        f.shared.items(SIZE)[self.word] = state.word
        return token


def lane_bits(lanes: Lanes) -> int:
    """A bit for each of these lanes of a warp."""
    return int(np.bitwise_or.reduce(np.uint32(1) << (lanes % WARP_LANES).astype(np.uint32)))


def arrival_of_copies(code: Code) -> Step:
    """cp.async.mbarrier.arrive: the thread's copies bring an arrival when they have arrived."""
    code.option("arrive")
    extra = not code.flag("noinc")
    generic = not code.optional("shared::cta", "shared")
    code.type("b64")
    code.count(1)
    target = target_of(code, code.operand(0), generic)
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        words, lanes = target.index(f, active), np.flatnonzero(active.mask)
        for chosen in groups(words):
            mine, word = lanes[chosen], int(words[chosen[0]])
            record, state = target.record(f, word, int(mine[0]))
            if extra:
                state.pending += mine.size
                f.shared.items(SIZE)[word] = state.word
            record.events.append(Event(mine.size, 0, _landing(f, mine), _rounds(f, mine)))

    return step


def _rounds(f: Frame, lanes: Lanes) -> Rounds:
    """Rounds of loads before an arrival of the lanes' copies, these copies included."""
    if f.counters is None:
        return NO_ROUNDS
    each = [
        f.counters.first_touches.rounds_of(warp) for warp in np.unique(lanes // WARP_LANES).tolist()
    ]
    return Rounds(max(r.all for r in each) + 1, max(r.fresh for r in each) + 1)


def _landing(f: Frame, lanes: Lanes) -> Callable[[Frame, Record], None]:
    mask = np.zeros(f.shape, np.bool_)
    mask.reshape(-1)[lanes] = True
    copies = [] if f.copies is None else list(f.copies.copies)
    warps = np.unique(lanes // WARP_LANES)

    def land(f: Frame, record: Record) -> None:
        if f.copies is not None:
            f.copies.deliver(f, copies, lambda copy: mask)
        order = ordering(f)
        if order is not None:
            for warp in warps.tolist():
                bits = lane_bits(lanes[lanes // WARP_LANES == warp])
                record.join(order.release(*warp_of(f, warp * WARP_LANES), bits))

    return land
