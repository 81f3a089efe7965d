"""The mbarriers of a batch, and what is in flight to them.

What a copy brings to an mbarrier is held back until threads wait for nothing else: a thread that
reads the copy's bytes without having waited finds them missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.isa import mbarriers as shared
from astra_vgpu.isa.mbarriers import SIZE, MbarrierState
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.address_spaces import (
    WINDOWS,
    Site,
)
from astra_vgpu.numpy_engine.code import Code, Read
from astra_vgpu.numpy_engine.first_touch import NO_ROUNDS, Rounds
from astra_vgpu.numpy_engine.frame import Active, Frame
from astra_vgpu.numpy_engine.loads import address_reader
from astra_vgpu.numpy_engine.mbarrier_races import Clock, OrderedRaces
from astra_vgpu.ptx.syntax import Instruction, Operand
from astra_vgpu.types import WARP_LANES


@dataclass
class Event:
    """Something in flight to an mbarrier: arrivals of a cp.async's thread, or a bulk copy."""

    arrivals: int
    bytes: int
    land: Callable[[Frame, Record], None]
    rounds: Rounds = NO_ROUNDS


@dataclass
class Record:
    """What the 64 bits of an mbarrier do not hold."""

    word: int
    """Its place among the batch's 64-bit words of shared memory."""
    row: int
    """Its block."""
    by: int
    """Warp that initialized it."""
    time: int
    """When that warp did so, by its clock of mbarrier_races."""
    phases: int = 0
    """Phases that have ended."""
    events: list[Event] = field(default_factory=list)
    before: Clock | None = None
    """What comes before the arrivals so far."""
    over: list[Clock | None] = field(default_factory=lambda: [None, None])
    """What `before` held when a phase of each parity last ended."""
    arrived: Rounds = NO_ROUNDS
    """Most rounds of the copies and warps that have arrived."""
    ended: list[Rounds] = field(default_factory=lambda: [NO_ROUNDS, NO_ROUNDS])
    """What `arrived` held when a phase of each parity last ended."""

    def join(self, clock: Clock) -> None:
        self.before = clock if self.before is None else np.maximum(self.before, clock)

    def turn(self, state: MbarrierState) -> None:
        """Ends the phase if nothing is awaited any more."""
        parity = state.phase
        if state.turn():
            self.over[parity], self.ended[parity] = self.before, self.arrived
            self.phases += 1


@dataclass
class Mbarriers:
    """Those of a batch, by place among the 64-bit words of its shared memory."""

    records: dict[int, Record] = field(default_factory=dict)

    def settle(self, f: Frame, record: Record) -> None:
        """Lets arrive what is in flight, if that ends the phase; no more than needed."""
        words = f.shared.items(SIZE)
        state = MbarrierState.of(int(words[record.word]))
        if state is None:
            return
        trial = MbarrierState(state.pending, state.expected, state.bytes, state.phase)
        for count, event in enumerate(record.events, 1):
            trial.pending -= event.arrivals
            trial.bytes -= event.bytes
            if trial.over:
                arriving, record.events = record.events[:count], record.events[count:]
                for each in arriving:
                    each.land(f, record)
                    record.arrived = record.arrived.most(each.rounds)
                record.turn(trial)
                words[record.word] = trial.word
                return


def barriers_of(f: Frame) -> Mbarriers:
    if f.mbarriers is None:
        f.mbarriers = Mbarriers()
    return f.mbarriers


def ordering(f: Frame) -> OrderedRaces | None:
    return f.races if isinstance(f.races, OrderedRaces) else None


def fence_before_copies(f: Frame, active: Active) -> None:
    """What fence.proxy.async means to the race check."""
    if (order := ordering(f)) is not None:
        order.fence_before_copies(f, active)


@dataclass(frozen=True)
class Target:
    """The mbarrier that an instruction names."""

    instruction: Instruction
    address: Read
    generic: bool
    site: Site

    def index(self, f: Frame, active: Active) -> NDArray[np.int64]:
        """Its place for each active lane. Raises Fault."""
        address = self.address(f)
        if self.generic:
            address = address - np.uint64(WINDOWS["shared"])
        return f.shared.locate(f, self.site, address, active)

    def misused(self, f: Frame, lane: int, what: str, kind: str = "mbarrier") -> Exception:
        return f.fault(self.instruction, kind, what, machine.LAUNCH_FAILURE, lane)

    def record(self, f: Frame, word: int, lane: int) -> tuple[Record, MbarrierState]:
        """Raises Fault where no mbarrier is, or none that this lane can know of."""
        state = MbarrierState.of(int(f.shared.items(SIZE)[word]))
        record = barriers_of(f).records.get(word)
        if state is None or record is None:
            raise self.misused(f, lane, shared.NONE)
        self.check_known(f, record, lane)
        return record, state

    def check_known(self, f: Frame, record: Record, lane: int) -> None:
        """Raises Fault where the lane cannot know that the mbarrier is initialized."""
        row, thread = divmod(lane, f.shape[1])
        order = ordering(f)
        if order is not None and not order.is_seen(row, thread, record.by, record.time):
            raise self.misused(f, lane, shared.UNORDERED, "race")


def target_of(code: Code, operand: Operand, generic: bool) -> Target:
    site = Site(code.instruction, SIZE, writes=True, ordered=True)
    return Target(code.instruction, address_reader(code, operand), generic, site)


def warp_of(f: Frame, lane: int) -> tuple[int, int]:
    row, thread = divmod(lane, f.shape[1])
    return row, thread // WARP_LANES
