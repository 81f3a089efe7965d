"""Runs one batch of thread blocks: divergence, reconvergence, and which lanes wait for which."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.isa.clocks import slept_in_wait_ns
from astra_vgpu.lowering.control_flow import GridPoll, Jump, Leave
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.address_spaces import lane_number
from astra_vgpu.numpy_engine.barriers import Barrier, BarrierWaits
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import (
    Active,
    Frame,
    Mask,
)
from astra_vgpu.numpy_engine.grid_sync import GridWaits
from astra_vgpu.numpy_engine.mbarrier_waits import MbarrierWaits, Poll
from astra_vgpu.numpy_engine.program import Block, Fork, Program, Table
from astra_vgpu.types import (
    WARP_LANES,
)

TURN = 4096
"""Instructions until other warps may run, where loops look at what others store: one may spin until
another has stored it."""
MIN_LANES = 8192
"""A batch has at least the budget of so many threads."""


class Batch:
    """Pending lanes by basic block; the earliest block with any runs next."""

    def __init__(self, program: Program, frame: Frame, budget: int) -> None:
        self._blocks = program.blocks
        self._frame = frame
        lanes = 0 if program.cooperative else frame.live.size
        self._most_steps = budget // max(lanes, MIN_LANES)
        self.lane_instructions = 0
        """Active lanes summed over the instructions so far."""
        self._empty = 0
        """Visits of blocks without an instruction that counts: a loop may be nothing else."""
        self._pending: list[Active | None] = [None] * len(program.blocks)
        self._queue: list[int] = []
        self._waiting = BarrierWaits(frame.shape)
        self._polls = MbarrierWaits(frame.live.size)
        self._pauses = GridWaits(frame.live.size)
        self._held: list[tuple[int, Active]] = []
        self._turn_ends = TURN if program.looks else None
        self._resting: NDArray[np.bool_] | None = None
        """Warps that ran for a turn, while others may."""
        self._clock_wait = self._clock_wait_from = 0
        """The loop that waits for a clock, and since when."""

    def run(self) -> None:
        frame = self._frame
        self._send(0, frame.active)
        while True:
            while self._queue:
                index = heapq.heappop(self._queue)
                active = self._pending[index]
                assert active is not None
                self._pending[index] = None
                if self._turn_ends is not None and frame.steps >= self._turn_ends:
                    self._change_turn(active)
                if self._resting is not None or not (self._polls.empty and self._pauses.empty):
                    active = self._allowed(index, active)
                if active.count:
                    self._visit(index, active)
            if self._resting is not None:
                self._rested()
                continue
            if self._waiting.empty and self._polls.empty and self._pauses.empty:
                if frame.bulk is not None:
                    frame.bulk.check_done(frame)
                return
            for target, mask in self._waited():
                self._send(target, Active(mask, int(np.count_nonzero(mask))))
            self._send_held()

    def _send_held(self) -> None:
        held, self._held = self._held, []
        for target, active in held:
            self._send(target, active)

    def _change_turn(self, active: Active) -> None:
        """The warps that run now rest, or those that rested run again."""
        self._turn_ends = self._frame.steps + TURN
        if self._resting is not None:
            self._rested()
        elif self._queue:
            self._resting = np.asarray(active.mask.reshape(-1, WARP_LANES).any(axis=1))

    def _rested(self) -> None:
        self._resting = None
        self._send_held()

    def _allowed(self, index: int, active: Active) -> Active:
        """Those lanes that need not wait for others of their warp; the rest is put aside."""
        held_by = [h for w in (self._polls, self._pauses) if (h := w.held(index)) is not None]
        held_by += [] if self._resting is None else [self._resting]
        if not held_by:
            return active
        warps = np.logical_or.reduce(held_by)
        there = np.repeat(warps, WARP_LANES).reshape(active.mask.shape)
        parts = [active.mask & there, active.mask & ~there]
        held, allowed = (Active(mask, int(np.count_nonzero(mask))) for mask in parts)
        if held.count:
            self._held.append((index, held))
        return allowed

    def _waited(self) -> list[tuple[int, Mask]]:
        """Lanes that continue, where none can do so by itself: (basic block, lanes)."""
        frame = self._frame
        released = [] if self._polls.empty else self._polls.pass_some(frame)
        if not released and not self._waiting.empty:
            others_wait = not (self._polls.empty and self._pauses.empty)
            released = self._waiting.open(frame, others_wait=others_wait)
        if not released and not self._pauses.empty:
            return self._pauses.resume(frame, lambda target: self._blocks[target].wait > 0)
        return released or self._polls.fail(frame)

    def _visit(self, index: int, active: Active) -> None:
        frame, block = self._frame, self._blocks[index]
        frame.enter(active)
        frame.steps += block.mix.instructions
        self.lane_instructions += block.mix.instructions * active.count
        self._empty += not block.mix.instructions
        if frame.steps + self._empty > self._most_steps:
            raise self._endless(block, active)
        if frame.counters is not None:
            frame.counters.visit(index, active)
        if block.wait or self._clock_wait:
            self._pass_time(block, active)
        if not self._waiting.empty:
            self._waiting.passed(index, active)
        for step in block.steps:
            step(frame)
        match block.end:
            case Jump(target=target):
                self._send(target, active)
            case Fork():
                self._fork(block.end, active)
            case Table():
                self._table(block.end, active)
            case Leave():
                frame.leave(active)
            case end:
                self._wait(end, active)

    def _pass_time(self, block: Block, active: Active) -> None:
        """Lets time pass in loops that wait for a clock."""
        frame = self._frame
        if block.wait != self._clock_wait:
            self._clock_wait, self._clock_wait_from = block.wait, frame.elapsed_ns
        elif slept := slept_in_wait_ns(
            frame.elapsed_ns - self._clock_wait_from, block.mix.instructions
        ):
            frame.sleep(np.where(active.mask, slept, 0))

    def _wait(self, end: Barrier | Poll | GridPoll, active: Active) -> None:
        if isinstance(end, GridPoll):
            self._pauses.arrive(self._frame, end, active)
            return
        if isinstance(end, Poll):
            self._polls.arrive(self._frame, end, active)
            return
        self._waiting.arrive(self._frame, end, active)
        if not end.waits:
            self._send(end.target, active)

    def _send(self, target: int, active: Active) -> None:
        if self._blocks[target].only_leaves:
            self.lane_instructions += self._blocks[target].mix.instructions * active.count
            if self._frame.counters is not None:
                self._frame.counters.visit(target, active)
            self._frame.leave(active)
            return
        there = self._pending[target]
        if there is None:
            self._pending[target] = active
            heapq.heappush(self._queue, target)
        else:
            self._pending[target] = Active(there.mask | active.mask, there.count + active.count)

    def _fork(self, fork: Fork, active: Active) -> None:
        predicate = fork.predicate(self._frame)
        if predicate.size == 1:
            self._send(fork.taken if predicate[0, 0] else fork.other, active)
            return
        taken = active.mask & predicate
        count = int(np.count_nonzero(taken))
        if count == 0:
            self._send(fork.other, active)
        elif count == active.count:
            self._send(fork.taken, active)
        else:
            if self._frame.counters is not None:
                self._frame.counters.branch(active, taken)
            self._send(fork.taken, Active(taken, count))
            rest: Mask = active.mask & ~taken
            self._send(fork.other, Active(rest, active.count - count))

    def _table(self, table: Table, active: Active) -> None:
        frame = self._frame
        index: Array = np.broadcast_to(table.index(frame), frame.shape)
        sent = 0
        for place, target in enumerate(table.targets):
            mask = active.mask & (index == place)
            count = int(np.count_nonzero(mask))
            if count:
                sent += count
                self._send(target, Active(mask, count))
        if sent < active.count:
            outside = active.mask & (index >= len(table.targets))
            lane = lane_number(Active(outside, active.count - sent), 0)
            raise frame.fault(
                table.instruction,
                "illegal_branch",
                "a branch index outside the branch table",
                machine.LAUNCH_FAILURE,
                lane,
            )

    def _endless(self, block: Block, active: Active) -> Exception:
        if (fault := self._polls.endless(self._frame)) is not None:
            return fault
        message = (
            f"more than {self._most_steps} instructions in a row: an infinite loop, or a wait for "
            "another block"
        )
        # A block may be nothing but a jump, mostly to one behind it.
        behind = self._blocks[self._blocks.index(block) :]
        first = next(b.first for b in (*behind, *self._blocks) if b.first is not None)
        return self._frame.fault(
            first, "timeout", message, machine.LAUNCH_TIMEOUT, lane_number(active, 0)
        )
