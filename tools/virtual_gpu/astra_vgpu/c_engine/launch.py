"""Runs a program over the blocks of a launch: the host's threads share them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.c_engine import layout
from astra_vgpu.c_engine.faults import fault_of, uninitialized_of
from astra_vgpu.c_engine.program import Program
from astra_vgpu.memory.block_races import BlockRaces, block_races_of
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.memory.bulk_stores import FINISHED, NDPieces, unfinished_stores
from astra_vgpu.memory.uninitialized_reads import first_of_each
from astra_vgpu.memory.warp_races import WatchedBuffers, watched_buffers
from astra_vgpu.numpy_engine.frame import blocks_of
from astra_vgpu.numpy_engine.schedule import (
    INSTRUCTION_BUDGET,
    RESERVED_BYTES,
    shared_limit,
)
from astra_vgpu.types import (
    SECTOR_BYTES,
    Counters,
    Launch,
    LaunchReport,
    Print,
    UninitializedReads,
    Visits,
)

BUDGET_SHARE = 256
"""Least number of warps in a batch of the NumPy engine: what runs there runs here."""
_MET = 2
"""What run_launch returns where blocks met and several workers cannot tell which was first."""
_libraries: dict[str, ctypes.CDLL] = {}


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
    races: bool = True,
    workers: int | None = None,
    block_races: BlockRaces | None = None,
    unfinished: Mapping[int, NDPieces] | None = None,
) -> LaunchReport:
    """Runs the launch, or the given linear block ids of it, on host memory.

    instruction_budget: of single threads, as for a batch of the NumPy engine; here a warp may issue
    a BUDGET_SHARE-th of it before it counts as an infinite loop. Without
    `races` the race checks are left out; bounds and alignment are always checked.
    block_races, unfinished: of the launch, where other parts of it run elsewhere.
    workers: threads of the host; None means one for each core that this process may use.
    Raises Fault where a GPU or its sanitizer would stop, KeyError for a variable of the module
    without an address, MissingDependency where the kernel cannot be compiled.
    """
    library = _load(program)
    module_globals = module_globals or {}
    if program.reference.has_heap:
        _ = memory.heap
    if races and block_races is None:
        block_races = block_races_of(program.reference.reach, launch, memory, module_globals)
    wanted = _Wanted(
        counters=counters,
        prints=prints,
        races=races,
        workers=workers,
        budget=instruction_budget // BUDGET_SHARE,
    )
    given = _given(program, launch, memory, blocks, module_globals, wanted)
    results = _results(program)
    request = _request(program, launch, memory, wanted, given, results)
    watched = None
    if races:
        watched = watched_buffers(program.reference.reach, launch, memory, module_globals)
    if races and unfinished is None:
        unfinished = unfinished_stores(program.reference.reach, launch, memory, module_globals)
    given.table.copy_in_bulk(unfinished or {})
    kept = _stamp(program, request, watched, given.table)
    failed = _watching(library, program, request, block_races, given.table, watched)
    del kept
    prints_of_launch = _prints(library, results.printed, results.printed_bytes.value)
    if failed:
        fault = fault_of(
            program,
            launch,
            memory,
            record=results.fault,
            budget=wanted.budget,
            block_races=block_races,
            watched=watched,
        )
        fault.unset = _uninitialized(program, launch, memory, results)
        raise fault
    return LaunchReport(
        launch,
        int(given.blocks.size),
        _counters(program, results, given.table)
        if counters
        else Counters(lane_instructions=results.counters.lane_instructions),
        prints_of_launch,
        uninitialized=_uninitialized(program, launch, memory, results),
        visits=_visits(results) if counters and given.blocks.size else None,
    )


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """What is looked at while a launch runs, and what it may take."""

    counters: bool
    prints: bool
    races: bool
    workers: int | None
    budget: int
    """Instructions that a warp may issue."""


@dataclass(frozen=True, kw_only=True)
class _Given:
    """What C reads of a launch. A request has only addresses of it: it is kept as long as C
    runs."""

    blocks: NDArray[np.int64]
    params: NDArray[np.uint8]
    symbols: NDArray[np.uint64]
    table: _Buffers


@dataclass(frozen=True, kw_only=True)
class _Results:
    """What C writes about a launch. A request has only addresses of it, too."""

    visits: NDArray[np.uint64]
    """Visits of all warps, by basic block."""
    longest: NDArray[np.uint64]
    """Visits of the warp that ran most instructions, by basic block."""
    longest_warp: layout.Longest
    counters: layout.Counters
    fault: layout.FaultRecord
    uninitialized: Any
    """The first uninitialized read of each memory instruction; block -1: none."""
    printed: ctypes.c_void_p
    printed_bytes: ctypes.c_uint64


def _given(
    program: Program,
    launch: Launch,
    memory: Memory,
    blocks: Sequence[int] | None,
    module_globals: Mapping[str, int],
    wanted: _Wanted,
) -> _Given:
    """Blocks, parameters, variables and buffers as C reads them."""
    param_bytes = program.reference.kernel.param_bytes
    params = np.zeros(max(param_bytes, 1), np.uint8)
    passed = np.frombuffer(launch.params, np.uint8)[:param_bytes]
    params[: passed.size] = passed
    return _Given(
        blocks=np.ascontiguousarray(blocks_of(launch, blocks)),
        params=params,
        symbols=np.array([module_globals[name] for name in program.symbols], np.uint64),
        table=_Buffers(memory, wanted.counters),
    )


def _results(program: Program) -> _Results:
    """Room for what C writes, as if nothing had happened yet."""
    visits = np.zeros(len(program.reference.blocks), np.uint64)
    none_read = [layout.UninitializedReads(block=-1)] * program.sites
    return _Results(
        visits=visits,
        longest=np.zeros_like(visits),
        longest_warp=layout.Longest(block=np.iinfo(np.int64).max),
        counters=layout.Counters(),
        fault=layout.FaultRecord(),
        uninitialized=(layout.UninitializedReads * program.sites)(*none_read),
        printed=ctypes.c_void_p(),
        printed_bytes=ctypes.c_uint64(),
    )


def _request(
    program: Program,
    launch: Launch,
    memory: Memory,
    wanted: _Wanted,
    given: _Given,
    results: _Results,
) -> layout.Launch:
    """The launch as C takes it, with the addresses of what it reads and writes."""
    reference = program.reference
    shared_bytes = shared_limit(reference, launch)
    return layout.Launch(
        blocks=given.blocks.ctypes.data,
        block_count=given.blocks.size,
        grid=(launch.grid.x, launch.grid.y, launch.grid.z),
        block=(launch.block.x, launch.block.y, launch.block.z),
        buffers=ctypes.addressof(given.table.rows),
        buffer_count=len(given.table.rows),
        params=given.params.ctypes.data,
        symbols=given.symbols.ctypes.data,
        budget=wanted.budget,
        param_bytes=reference.kernel.param_bytes,
        shared_limit=shared_bytes,
        reserved_at=shared_bytes - RESERVED_BYTES if reference.reserves else 0,
        local_bytes=reference.local_bytes,
        dynamic_shared=launch.dynamic_shared_bytes,
        race_granule=reference.shared_granule if wanted.races else 0,
        workers=1 if program.serial else _workers(wanted.workers, given.blocks.size),
        printed=ctypes.addressof(results.printed) if wanted.prints else None,
        printed_bytes=ctypes.addressof(results.printed_bytes),
        uninitialized=ctypes.addressof(results.uninitialized),
        visits=results.visits.ctypes.data if wanted.counters else None,
        longest=results.longest.ctypes.data,
        longest_warp=ctypes.addressof(results.longest_warp),
        counters=ctypes.addressof(results.counters),
        fault=ctypes.addressof(results.fault),
        left_there=launch.left_there,
        programmatic=launch.programmatic,
        meeting_place=launch.meeting_place,
        has_heap=memory.has_heap,
        take=layout.TAKE(lambda nbytes: memory.heap.take(nbytes)),
        give=layout.GIVE(lambda address: memory.heap.give(address)),
    )


def _uninitialized(
    program: Program, launch: Launch, memory: Memory, results: _Results
) -> tuple[UninitializedReads, ...]:
    """The first uninitialized read of each instruction that made one."""
    met = [each for each in results.uninitialized if each.block >= 0]
    return first_of_each([uninitialized_of(program, launch, memory, each) for each in met])


def _visits(results: _Results) -> Visits:
    return Visits(
        total=tuple(results.visits.tolist()),
        longest=tuple(results.longest.tolist()),
        instructions=results.longest_warp.instructions,
        block=results.longest_warp.block,
    )


def _stamp(
    program: Program, request: layout.Launch, watched: WatchedBuffers | None, table: _Buffers
) -> NDArray[np.uint32] | None:
    """Gives buffers the stamps of the check for races between threads of a block; what C refers to
    besides, to be kept as long as it runs."""
    if watched is None:
        return None
    numbers = np.array([watched.reach.number(i) for i in program.instructions] or [0], np.uint32)
    request.stamped, request.stamp_numbers = 1, numbers.ctypes.data
    table.stamp(watched)
    return numbers


def _watching(
    library: ctypes.CDLL,
    program: Program,
    request: layout.Launch,
    block_races: BlockRaces | None,
    table: _Buffers,
    watched: WatchedBuffers | None,
) -> bool:
    """Runs the launch; by one worker again where blocks seem to have met. Whether it failed."""
    if block_races is None:
        return bool(library.run_launch(ctypes.byref(request)))
    numbers = np.array([block_races.number(i) for i in program.instructions] or [0], np.uint32)
    request.site_numbers = numbers.ctypes.data
    if (order := block_races.order) is not None:
        request.times, request.places = order.times.ctypes.data, order.places.ctypes.data
        request.clock = order.clock.ctypes.data
        request.order_rows = order.rows
        request.pending, request.looks = order.pending.ctypes.data, order.looks.ctypes.data
    request.watched, request.again = 1, block_races.used
    request.site_bits = block_races.site_bits
    # What atomic operations did cannot be undone: such kernels run precisely at once.
    request.precise = program.serial
    table.watch(block_races, precise=program.serial)
    undo = block_races.snapshot() if not program.serial else None
    end = library.run_launch(ctypes.byref(request))
    if end == _MET and undo is not None:
        undo()
        for pieces in table.unfinished:
            pieces[:] = FINISHED
        request.workers = request.precise = 1
        request.visits = request.printed = None
        table.watch(block_races, precise=True)
        if watched is not None:
            watched.clear()
        counted = layout.Counters.from_address(request.counters)
        lane_instructions = counted.lane_instructions
        end = library.run_launch(ctypes.byref(request))
        counted.lane_instructions = lane_instructions
    block_races.used = True
    return bool(end)


def _prints(library: ctypes.CDLL, at: ctypes.c_void_p, nbytes: int) -> tuple[Print, ...]:
    if not at:
        return ()
    rows = (layout.Print * (nbytes // ctypes.sizeof(layout.Print))).from_address(at.value or 0)
    prints = tuple(Print(r.block, r.format, bytes(r.arguments[: r.bytes])) for r in rows)
    library.drop_prints(at)
    return prints


def _load(program: Program) -> ctypes.CDLL:
    path = str(program.library())
    if path not in _libraries:
        _libraries[path] = ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL)
    return _libraries[path]


def _workers(wanted: int | None, blocks: int) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(min(wanted or cores or 1, blocks), 1)


_CELLS = (
    "readers",
    "writer_threads",
    "reader_threads",
    "writer_times",
    "reader_times",
    "adders",
    "adder_times",
    "adder_threads",
    "posted",
    "flags",
    "late_readers",
    "late_reader_times",
    "late_reader_threads",
)
_STAMPS = ("writers", "readers", "adders", "writer_times", "reader_times", "adder_times")


class _Buffers:
    """The registered buffers as C sees them, with a byte for each sector where they count."""

    def __init__(self, memory: Memory, counters: bool) -> None:
        self.loaded: list[NDArray[np.bool_]] = []
        self.stored: list[NDArray[np.bool_]] = []
        self.unfinished: list[NDPieces] = []
        buffers = memory.buffers
        self.rows: Any = (layout.Buffer * len(buffers))()
        for row, buffer in zip(self.rows, buffers, strict=True):
            row.address, row.end = buffer.address, buffer.address + buffer.nbytes
            row.early = buffer.early
            row.starts_uninitialized = buffer.starts_uninitialized
            if buffer.allocated is not None:
                row.allocated = buffer.allocated.ctypes.data
            row.written = buffer.written.ctypes.data if buffer.written is not None else None
            if counters:
                last = (buffer.address + max(buffer.nbytes, 1) - 1) // SECTOR_BYTES
                sectors = last - buffer.address // SECTOR_BYTES + 1
                self.loaded.append(np.zeros(sectors, np.bool_))
                self.stored.append(np.zeros(sectors, np.bool_))
                row.loaded = self.loaded[-1].ctypes.data
                row.stored = self.stored[-1].ctypes.data

    def watch(self, block_races: BlockRaces, *, precise: bool) -> None:
        """Gives buffers the cells of the check for races between blocks."""
        cells = block_races.fine() if precise else block_races.coarse()
        for row in self.rows:
            if row.address in cells:
                mine = cells[row.address]
                row.writers, row.cell_bits = mine.writers.ctypes.data, mine.bits
                for name in _CELLS:
                    array = getattr(mine, name)
                    setattr(row, name, None if array is None else array.ctypes.data)

    def copy_in_bulk(self, unfinished: Mapping[int, NDPieces]) -> None:
        """Gives buffers what bulk copies write to them: bulk_stores.py."""
        for row in self.rows:
            if (pieces := unfinished.get(row.address)) is not None:
                row.unfinished = pieces.ctypes.data
                self.unfinished.append(pieces)

    def stamp(self, watched: WatchedBuffers) -> None:
        """Gives buffers the stamps of the check between threads of a block."""
        for row in self.rows:
            if (stamps := watched.by_address.get(row.address)) is not None:
                row.stamp_bits = watched.granule_bits
                for name in _STAMPS:
                    array = getattr(stamps, name)
                    setattr(row, f"stamp_{name}", None if array is None else array.ctypes.data)


def _counters(program: Program, results: _Results, table: _Buffers) -> Counters:
    """All counters of the launch, by their names in the report."""
    counters = _executed(program, results.visits)
    _count_global(counters, results.counters, table)
    _count_on_chip(counters, results.counters)
    _count_longest_warp(counters, results.counters)
    return counters


def _executed(program: Program, visits: NDArray[np.uint64]) -> Counters:
    """What follows from how often warps came to each basic block: instructions and their units."""
    counters = Counters()
    for count, mix in zip(visits.tolist(), program.reference.mixes, strict=True):
        if count:
            scaled = {name: count * each for name, each in mix.classes.items()}
            counters.warp_instructions.update(scaled)
            counters.issue_tenths += count * mix.slots
            counters.alu_tenths += count * mix.alu
            counters.special_tenths += count * mix.special
            counters.tensor_tenths += count * mix.tensor
    return counters


def _count_global(counters: Counters, raw: layout.Counters, table: _Buffers) -> None:
    """Loads, stores and atomic operations on global memory."""
    counters.global_load_requests = raw.load_requests
    counters.global_load_sectors = raw.load_sectors
    counters.global_load_lines = raw.load_lines
    counters.global_load_wavefronts = raw.load_wavefronts
    counters.global_load_bytes = raw.load_bytes
    counters.global_store_requests = raw.store_requests
    counters.global_store_sectors = raw.store_sectors
    counters.global_store_lines = raw.store_lines
    counters.global_store_bytes = raw.store_bytes
    counters.store_packets = raw.store_packets
    counters.store_packet_thirds = raw.store_packet_thirds
    counters.unique_load_sectors = sum(int(np.count_nonzero(b)) for b in table.loaded)
    counters.unique_store_sectors = sum(int(np.count_nonzero(b)) for b in table.stored)
    counters.block_load_sectors = raw.block_sectors
    counters.block_load_lines = raw.block_lines
    counters.late_load_sectors = raw.late_sectors
    counters.load_buffer_sectors = sum(b.size for b in table.loaded if b.any())
    counters.store_buffer_sectors = sum(b.size for b in table.stored if b.any())
    counters.atomic_lanes = raw.atomic_lanes
    counters.atomic_turns = raw.atomic_turns
    counters.atomic_hottest_turns = raw.hottest_turns
    counters.atomic_float_turns = raw.float_turns


def _count_on_chip(counters: Counters, raw: layout.Counters) -> None:
    """Local and shared memory, constants, and what warps do together."""
    counters.lane_instructions = raw.lane_instructions
    counters.local_load_requests = raw.local_load_requests
    counters.local_load_sectors = raw.local_load_sectors
    counters.local_store_requests = raw.local_store_requests
    counters.local_store_sectors = raw.local_store_sectors
    counters.local_unique_sectors = raw.local_unique_sectors
    counters.shared_requests = raw.shared_requests
    counters.shared_wavefronts = raw.shared_wavefronts
    counters.constant_load_requests = raw.constant_requests
    counters.constant_load_words = raw.constant_words
    counters.match_turns = raw.match_turns
    counters.barriers = raw.barriers
    counters.divergent_branches = raw.divergent_branches


def _count_longest_warp(counters: Counters, raw: layout.Counters) -> None:
    """Most of each kind that any one warp had."""
    counters.critical_path_constant_words = raw.longest_constants
    counters.critical_path_match_turns = raw.longest_matches
    counters.critical_path_sleep_ns = raw.longest_sleep_ns
    counters.critical_path_instructions = raw.longest_instructions
    counters.critical_path_cycles = raw.longest_cycles
    counters.critical_path_loads = raw.longest_loads
    counters.dependent_load_rounds = raw.longest_rounds
    counters.fresh_load_rounds = raw.fresh_rounds
    counters.mbarrier_rounds = raw.mbarrier_rounds
    counters.copy_cycles = raw.copy_cycles
