"""mbarrier.test_wait and try_wait: lanes that wait for the end of an mbarrier's phase.

PTX lets a test take its time, so each is answered when no other thread of the block can run; it
fails only if the phase cannot have ended by then. A loop of tests thus takes one iteration, and one
that can never succeed is an infinite loop.

Until then, other lanes of the same warp do not pass the point where the waiting ones will return,
or these would miss them at the next __syncwarp(); unless everyone waits for exactly that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.isa.mbarriers import (
    BYTES,
    FAILED_NS,
    MOST,
    PHASE,
    SIZE,
    STALE,
    form_of,
    hang_message,
)
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.block_races import meet_all
from astra_vgpu.numpy_engine.code import Code, Read, Write
from astra_vgpu.numpy_engine.frame import Active, Frame, Mask
from astra_vgpu.numpy_engine.mbarrier_races import lanes_by_warp
from astra_vgpu.numpy_engine.mbarrier_state import (
    Target,
    barriers_of,
    ordering,
    target_of,
)
from astra_vgpu.numpy_engine.mbarriers import groups, lane_bits
from astra_vgpu.ptx.syntax import Instruction
from astra_vgpu.types import WARP_LANES


def _note_met(f: Frame) -> None:
    """The active lanes have passed an mbarrier: which warps have met by that?"""
    order, active = ordering(f), f.active
    if order is not None:
        met = np.repeat(order.counts_as_met(f.live, active.mask), WARP_LANES, axis=1) & active.mask
        active = Active(met, int(np.count_nonzero(met)))
    if active.count:
        f.synced(active)


@dataclass(frozen=True)
class Poll:
    instruction: Instruction
    mbarrier: Target
    phase: Read
    """Parity of the phase that must have ended, or the state that an arrival in it returned."""
    parity: bool
    relaxed: bool
    write: Write
    target: int
    """Basic block after it."""


def translate_poll(code: Code, target: int) -> Poll:
    """mbarrier.test_wait and try_wait. Raises PtxUnsupported."""
    code.check_place()
    form = form_of(code)
    code.done()
    if len(code.operands) == 4:
        code.read(3, "u32")  # How long to wait at most: here a test waits as long as it must.
    phase = code.read(2, "u32" if form.parity else "b64")
    mbarrier = target_of(code, code.operand(1), form.space == "")
    write = code.write(0, "pred")
    return Poll(code.instruction, mbarrier, phase, form.parity, form.relaxed, write, target)


PATIENCE = 32
"""Failed tests of all waiting lanes before lanes continue without the others of their warp."""
_NOWHERE = np.iinfo(np.int64).max


@dataclass
class _Waiting:
    poll: Poll
    lanes: NDArray[np.int64]
    """Positions in the batch."""
    words: NDArray[np.int64]
    parities: NDArray[np.int64]
    numbers: NDArray[np.int64]
    """Numbers of the phases whose ends are waited for; their parities, where only these are
    known."""

    def keep(self, chosen: Mask) -> None:
        self.lanes, self.words = self.lanes[chosen], self.words[chosen]
        self.parities, self.numbers = self.parities[chosen], self.numbers[chosen]


class MbarrierWaits:
    """The lanes of a batch that wait for mbarriers."""

    def __init__(self, lanes: int) -> None:
        self._waiting: list[_Waiting] = []
        self._back = np.full(lanes // WARP_LANES, _NOWHERE, np.int64)
        """Basic block where the first waiting lanes of a warp will come back, by warp."""
        self._failed_polls = 0
        self.last_failed: tuple[Poll, int, int] | None = None
        """The last test that failed, its lane and mbarrier; None once one did not."""

    @property
    def empty(self) -> bool:
        return not self._waiting

    def arrive(self, f: Frame, poll: Poll, active: Active) -> None:
        f.enter(active)
        if f.counters is not None:
            f.counters.barrier(active)
        words = poll.mbarrier.index(f, active)
        lanes = np.flatnonzero(active.mask)
        phases = np.broadcast_to(poll.phase(f), f.shape)[active.mask]
        numbers = phases
        if not poll.parity:
            numbers = (phases >> np.uint64(BYTES)).astype(np.int64) & MOST
            phases = phases >> np.uint64(PHASE)
        parities = phases.astype(np.int64) & 1
        self._waiting.append(_Waiting(poll, lanes, words, parities, numbers.astype(np.int64)))
        np.minimum.at(self._back, lanes // WARP_LANES, poll.target)

    def held(self, block: int) -> Mask | None:
        """Which warps, [warps], may not enter this basic block yet; None for none of them."""
        held = self._back <= block
        return held if self._failed_polls < PATIENCE and held.any() else None

    def _keep_rest(self) -> None:
        self._waiting = [w for w in self._waiting if w.lanes.size]
        self._back[:] = _NOWHERE
        for waiting in self._waiting:
            np.minimum.at(self._back, waiting.lanes // WARP_LANES, waiting.poll.target)

    def _check_recent(self, f: Frame, waiting: _Waiting) -> None:
        """PTX: a state is of the current phase or of the one before."""
        for word in np.unique(waiting.words).tolist():
            there = np.flatnonzero(waiting.words == word)
            phases = barriers_of(f).records[word].phases
            stale = (phases - waiting.numbers[there] & MOST) > 1
            if stale.any():
                lane = int(waiting.lanes[there[np.argmax(stale)]])
                raise waiting.poll.mbarrier.misused(f, lane, STALE)

    def pass_some(self, f: Frame) -> list[tuple[int, Mask]]:
        """(basic block, lanes that continue there): those whose phase is over; if there are none in
        the batch, those whose phase ends with what is in flight to the mbarrier."""
        return self._passed(f) or self._settled(f)

    def _settled(self, f: Frame) -> list[tuple[int, Mask]]:
        for waiting in self._waiting:
            for word in dict.fromkeys(waiting.words.tolist()):
                record = barriers_of(f).records.get(word)
                if record is not None:
                    barriers_of(f).settle(f, record)
        return self._passed(f)

    def _passed(self, f: Frame) -> list[tuple[int, Mask]]:
        passed: list[tuple[int, Mask]] = []
        words = f.shared.items(SIZE)
        for waiting in self._waiting:
            states = words[waiting.words]
            no_mark = states >> np.uint64(62) != 1
            for at in np.flatnonzero(no_mark | ~self._known(f, waiting))[:1]:
                waiting.poll.mbarrier.record(f, int(waiting.words[at]), int(waiting.lanes[at]))
            if not waiting.poll.parity:
                self._check_recent(f, waiting)
            over = (states >> np.uint64(PHASE) & np.uint64(1)).astype(np.int64) != waiting.parities
            if over.any():
                self._acquire(f, waiting, over)
                passed.append(self._answer(f, waiting, over, True))
                _note_met(f)
                # Whoever arrived counts as all of the block: a missed race is better.
                meet_all(f, f.active)
                self.last_failed, self._failed_polls = None, 0
        self._keep_rest()
        return passed

    def fail(self, f: Frame) -> list[tuple[int, Mask]]:
        """Tells all waiting lanes that their phase is not over: nothing else can continue."""
        f.steps += FAILED_NS
        first = self._waiting[0]
        self.last_failed = (first.poll, int(first.lanes[0]), int(first.words[0]))
        failed = [
            self._answer(f, waiting, np.ones(waiting.lanes.size, np.bool_), False)
            for waiting in self._waiting
        ]
        self._failed_polls += 1
        self._keep_rest()
        return failed

    def _known(self, f: Frame, waiting: _Waiting) -> Mask:
        """Where an mbarrier was initialized: data may look like one."""
        return np.isin(waiting.words, np.fromiter(barriers_of(f).records, np.int64))

    def _acquire(self, f: Frame, waiting: _Waiting, over: Mask) -> None:
        """What came before the arrivals comes before what these lanes do next, and has taken its
        rounds of loads. Raises Fault for one that cannot know that the mbarrier is initialized."""
        order = ordering(f)
        if order is None and f.counters is None:
            return
        words = f.shared.data.size // SIZE
        lanes = waiting.lanes[over]
        keys = ((lanes // WARP_LANES * words + waiting.words[over]) * 2) + waiting.parities[over]
        live = lanes_by_warp(f.live).reshape(-1)
        for chosen in groups(keys):
            mine = lanes[chosen]
            place, parity = divmod(int(keys[chosen[0]]), 2)
            warp, word = divmod(place, words)
            record = barriers_of(f).records[word]
            waiting.poll.mbarrier.check_known(f, record, int(mine[0]))
            clock = record.over[parity]
            if order is not None and clock is not None and not waiting.poll.relaxed:
                row, of_block = divmod(warp, f.shape[1] // WARP_LANES)
                order.acquire(row, of_block, clock, lane_bits(mine), int(live[warp]))
            if f.counters is not None:
                f.counters.first_touches.wait_for(record.ended[parity], warp)

    def _answer(self, f: Frame, waiting: _Waiting, chosen: Mask, value: bool) -> tuple[int, Mask]:
        mask = np.zeros(f.shape, np.bool_)
        mask.reshape(-1)[waiting.lanes[chosen]] = True
        f.enter(Active(mask, int(np.count_nonzero(chosen))))
        waiting.poll.write(f, np.full((1, 1), value))
        waiting.keep(~chosen)
        return waiting.poll.target, mask

    def endless(self, f: Frame) -> Exception | None:
        """The fault of a batch whose lanes wait without progress; None if they do something
        else."""
        if self.last_failed is None:
            return None
        poll, lane, word = self.last_failed
        offset = word * SIZE - int(np.broadcast_to(f.shared.origin, f.shape).reshape(-1)[lane])
        message = hang_message(offset, int(f.shared.items(SIZE)[word]))
        return f.fault(poll.instruction, "timeout", message, machine.LAUNCH_TIMEOUT, lane)
