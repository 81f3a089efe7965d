"""Runs a Program over the blocks of a launch, batch by batch: warp scheduling and divergence."""

from __future__ import annotations

import ctypes
import functools
import heapq
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from astra_chat.tools.virtual_gpu.lowering.control_flow import GridPoll, Jump, Leave
from astra_chat.tools.virtual_gpu.memory.block_races import BlockRaces, block_races_of, watched
from astra_chat.tools.virtual_gpu.memory.buffers import Memory
from astra_chat.tools.virtual_gpu.memory.uninitialized_reads import first_of_each
from astra_chat.tools.virtual_gpu.numpy_engine import frame as machine
from astra_chat.tools.virtual_gpu.numpy_engine.address_spaces import Arena, lane_number, make_arena
from astra_chat.tools.virtual_gpu.numpy_engine.barriers import Barrier, BarrierWaits
from astra_chat.tools.virtual_gpu.numpy_engine.counters import BlockCounters, LaunchCounters
from astra_chat.tools.virtual_gpu.numpy_engine.dtypes import Array, unsigned
from astra_chat.tools.virtual_gpu.numpy_engine.frame import (
    Active,
    Frame,
    Mask,
    blocks_of,
    padded_threads,
)
from astra_chat.tools.virtual_gpu.numpy_engine.grid_sync import GridWaits
from astra_chat.tools.virtual_gpu.numpy_engine.mbarrier_races import OrderedRaces
from astra_chat.tools.virtual_gpu.numpy_engine.mbarrier_waits import MbarrierWaits, Poll
from astra_chat.tools.virtual_gpu.numpy_engine.program import Block, Fork, Program, Table
from astra_chat.tools.virtual_gpu.numpy_engine.shared_memory_races import RaceCheck
from astra_chat.tools.virtual_gpu.types import (
    WARP_LANES,
    Counters,
    Launch,
    LaunchReport,
    Print,
    UninitializedReads,
)

BATCH_LANES = 32768
"""Lanes that run cooperative: enough to hide the cost of a NumPy call, few enough for the cache."""
INSTRUCTION_BUDGET = 1 << 33
"""Instructions of single threads that one batch may issue before it counts as an infinite loop:
some seconds. All threads of the batch count, idle ones too, and at least _LEAST_LANES."""
_LEAST_LANES = 8192
_KEPT_BYTES = 1 << 28
RESERVED_BYTES = 288
"""What cooperative_groups may use beyond a kernel's own shared memory."""
_LOCAL_LIMIT_BYTES = 1 << 28


def run(
    program: Program,
    launch: Launch,
    memory: Memory,
    *,
    blocks: Sequence[int] | None = None,
    instruction_budget: int = INSTRUCTION_BUDGET,
    module_globals: Mapping[str, int] | None = None,
    counters: bool = True,
    prints: bool = False,
    block_races: BlockRaces | None = None,
) -> LaunchReport:
    """Runs the launch, or the given linear block ids of it, on host memory.

    module_globals: address of each variable of the module. Without `counters` those of the report
    stay zero, without `prints` what the kernel prints is dropped. block_races: of the launch, where
    other parts of it run elsewhere. Raises Fault where a GPU or its
    sanitizer would stop, KeyError for a variable of the module without an address.
    """
    _keep_freed_memory()
    chosen = blocks_of(launch, blocks)
    threads = padded_threads(launch.block)
    step = chosen.size if program.cooperative else _step(program, threads)
    launch_counters = LaunchCounters() if counters else None
    room = shared_limit(program, launch)
    if program.has_heap:
        _ = memory.heap
    if block_races is None:
        block_races = block_races_of(program.reach, launch, memory, module_globals or {})
    printed: list[Print] = []
    uninitialized: list[UninitializedReads] = []
    for start in range(0, chosen.size, step):
        frame = _frame(
            program,
            launch,
            memory,
            module_globals or {},
            chosen[start : start + step],
            launch_counters,
            room,
        )
        frame.prints = printed if prints else None
        frame.block_races = block_races
        with np.errstate(all="ignore"), watched(block_races):
            _Batch(program, frame, instruction_budget).run()
        if frame.counters is not None:
            frame.counters.finish()
        uninitialized += frame.uninitialized.values()
    result_counters = launch_counters.finish() if launch_counters else Counters()
    return LaunchReport(
        launch, int(chosen.size), result_counters, tuple(printed),
        uninitialized=first_of_each(uninitialized),
        visits=launch_counters.visits if launch_counters else None,
    )  # fmt: skip


@functools.cache
def _keep_freed_memory() -> None:
    """Tells malloc not to give freed arrays back to the kernel between two instructions.

    The page faults of getting them again would cost several times what the arithmetic does.
    """
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3  # malloc.h
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        for option in (trim_threshold, mmap_threshold):
            libc.mallopt(option, _KEPT_BYTES)
        libc.mallopt(top_pad, _KEPT_BYTES // 8)


def _step(program: Program, threads: int) -> int:
    """Blocks of a batch."""
    if program.in_order:
        return 1
    lanes = BATCH_LANES
    if program.local_bytes:
        lanes = min(lanes, max(_LOCAL_LIMIT_BYTES // program.local_bytes, threads))
    return max(lanes // threads, 1)


def shared_limit(program: Program, launch: Launch) -> int:
    """Static and dynamic; a dynamic array begins at most 15 bytes behind the static ones."""
    static = (
        -(-program.shared_bytes // 16) * 16
        if launch.dynamic_shared_bytes
        else (program.shared_bytes)
    )
    own = static + launch.dynamic_shared_bytes
    return -(-max(own, 1) // 16) * 16 + RESERVED_BYTES if program.reserves else own


def _frame(
    program: Program,
    launch: Launch,
    memory: Memory,
    symbols: Mapping[str, int],
    ids: NDArray[np.int64],
    launch_counters: LaunchCounters | None,
    shared_limit: int,
) -> Frame:
    shape = (ids.size, padded_threads(launch.block))
    exists = np.broadcast_to(np.arange(shape[1]) < launch.block.count, shape).copy()
    shared = make_arena("shared", shape[0], shared_limit, (shape[0], 1))
    if shared_limit:
        shared.filled = np.zeros(shared.data.size, np.uint8)
    if program.reserves:
        shared.reserved_at = shared_limit - RESERVED_BYTES
        for bytes_, value in ((shared.data, 0), (shared.filled, 1)):
            assert bytes_ is not None
            bytes_.reshape(shape[0], -1)[:, shared.reserved_at :] = value
    local = make_arena("local", shape[0] * shape[1], program.local_bytes, shape)
    races = None
    if program.shared_granule and shared_limit:
        check = OrderedRaces if program.has_mbarriers else RaceCheck
        races = check(shape, shared.data.size, program.shared_granule)
    return Frame(
        launch=launch,
        memory=memory,
        symbols=symbols,
        blocks=ids,
        registers=[np.zeros((1, 1), unsigned(width)) for width in program.widths],
        shared=shared,
        local=local,
        params=_params(program, launch),
        races=races,
        counters=BlockCounters(launch_counters, shape, program.mixes, program.local_bytes, ids)
        if launch_counters
        else None,
        live=exists,
    )


def _params(program: Program, launch: Launch) -> Arena:
    arena = make_arena("param", 1, program.kernel.param_bytes, (1, 1))
    data = np.frombuffer(launch.params, np.uint8)[: program.kernel.param_bytes]
    arena.data[: data.size] = data
    return arena


class _Batch:
    """Pending lanes by basic block; the earliest block with any runs next."""

    def __init__(self, program: Program, frame: Frame, budget: int) -> None:
        self._blocks = program.blocks
        self._frame = frame
        lanes = 0 if program.cooperative else frame.live.size
        self._most_steps = budget // max(lanes, _LEAST_LANES)
        self._empty = 0
        """Visits of blocks without an instruction that counts: a loop may be nothing else."""
        self._pending: list[Active | None] = [None] * len(program.blocks)
        self._queue: list[int] = []
        self._waiting = BarrierWaits(frame.live)
        self._polls = MbarrierWaits(frame.live.size)
        self._pauses = GridWaits(frame.live.size)
        self._held: list[tuple[int, Active]] = []

    def run(self) -> None:
        frame = self._frame
        self._send(0, frame.active)
        while True:
            while self._queue:
                index = heapq.heappop(self._queue)
                active = self._pending[index]
                assert active is not None
                self._pending[index] = None
                if not (self._polls.empty and self._pauses.empty):
                    active = self._allowed(index, active)
                if active.count:
                    self._visit(index, active)
            if self._waiting.empty and self._polls.empty and self._pauses.empty:
                return
            for target, mask in self._waited():
                self._send(target, Active(mask, int(np.count_nonzero(mask))))
            held, self._held = self._held, []
            for target, active in held:
                self._send(target, active)

    def _allowed(self, index: int, active: Active) -> Active:
        """Those lanes that need not wait for others of their warp; the rest is put aside."""
        held_by = [h for w in (self._polls, self._pauses) if (h := w.held(index)) is not None]
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
        """Lanes that go on, where none can do so by itself: (basic block, lanes)."""
        frame = self._frame
        released = [] if self._polls.empty else self._polls.pass_some(frame)
        if not released and not self._waiting.empty:
            others_wait = not (self._polls.empty and self._pauses.empty)
            released = self._waiting.open(frame, others_wait=others_wait)
        if not released and not self._pauses.empty:
            return self._pauses.resume(frame)
        return released or self._polls.fail(frame)

    def _visit(self, index: int, active: Active) -> None:
        frame, block = self._frame, self._blocks[index]
        frame.enter(active)
        frame.steps += block.mix.instructions
        self._empty += not block.mix.instructions
        if frame.steps + self._empty > self._most_steps:
            raise self._endless(block, active)
        if frame.counters is not None:
            frame.counters.visit(index, active)
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
        assert block.first is not None
        return self._frame.fault(
            block.first, "timeout", message, machine.LAUNCH_TIMEOUT, lane_number(active, 0)
        )
