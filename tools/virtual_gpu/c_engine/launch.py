"""Runs a program over the blocks of a launch: the host's threads share them."""

from __future__ import annotations

import ctypes
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_chat.tools.virtual_gpu.c_engine import layout
from astra_chat.tools.virtual_gpu.c_engine.faults import fault_of, uninitialized_of
from astra_chat.tools.virtual_gpu.c_engine.program import Program
from astra_chat.tools.virtual_gpu.memory.block_races import BlockRaces, block_races_of
from astra_chat.tools.virtual_gpu.memory.buffers import Memory
from astra_chat.tools.virtual_gpu.memory.uninitialized_reads import first_of_each
from astra_chat.tools.virtual_gpu.memory.warp_races import WatchedBuffers, watched_buffers
from astra_chat.tools.virtual_gpu.numpy_engine.frame import blocks_of
from astra_chat.tools.virtual_gpu.numpy_engine.schedule import (
    INSTRUCTION_BUDGET,
    RESERVED_BYTES,
    shared_limit,
)
from astra_chat.tools.virtual_gpu.types import (
    SECTOR_BYTES,
    Counters,
    Launch,
    LaunchReport,
    Print,
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
) -> LaunchReport:
    """Runs the launch, or the given linear block ids of it, on host memory.

    instruction_budget: of single threads, as for a batch of the NumPy engine; here a warp may issue
    a BUDGET_SHARE-th of it before it counts as an infinite loop. Without
    `races` the race checks are left out; bounds and alignment are always checked.
    block_races: of the launch, where other parts of it run elsewhere.
    workers: threads of the host; None means one for each core that this process may use.
    Raises Fault where a GPU or its sanitizer would stop, KeyError for a variable of the module
    without an address, MissingDependency where the kernel cannot be compiled.
    """
    library = _load(program)
    if program.reference.has_heap:
        _ = memory.heap
    if races and block_races is None:
        block_races = block_races_of(program.reference.reach, launch, memory, module_globals or {})
    chosen = np.ascontiguousarray(blocks_of(launch, blocks))
    table = _Buffers(memory, counters)
    symbols = np.array([(module_globals or {})[name] for name in program.symbols], np.uint64)
    params = np.zeros(max(program.reference.kernel.param_bytes, 1), np.uint8)
    given = np.frombuffer(launch.params, np.uint8)[: program.reference.kernel.param_bytes]
    params[: given.size] = given
    visits = np.zeros(len(program.reference.blocks), np.uint64)
    longest, longest_warp = np.zeros_like(visits), layout.Longest(block=np.iinfo(np.int64).max)
    raw, fault = layout.Counters(), layout.FaultRecord()
    uninitialized: Any = (layout.UninitializedReads * program.sites)(
        *[layout.UninitializedReads(block=-1)] * program.sites
    )
    printed, printed_bytes = ctypes.c_void_p(), ctypes.c_uint64()
    request = layout.Launch(
        blocks=chosen.ctypes.data,
        block_count=chosen.size,
        grid=(launch.grid.x, launch.grid.y, launch.grid.z),
        block=(launch.block.x, launch.block.y, launch.block.z),
        buffers=ctypes.addressof(table.rows),
        buffer_count=len(table.rows),
        params=params.ctypes.data,
        symbols=symbols.ctypes.data,
        budget=instruction_budget // BUDGET_SHARE,
        param_bytes=program.reference.kernel.param_bytes,
        shared_limit=shared_limit(program.reference, launch),
        reserved_at=(
            shared_limit(program.reference, launch) - RESERVED_BYTES
            if program.reference.reserves
            else 0
        ),
        local_bytes=program.reference.local_bytes,
        dynamic_shared=launch.dynamic_shared_bytes,
        race_granule=program.reference.shared_granule if races else 0,
        workers=1 if program.serial else _workers(workers, chosen.size),
        printed=ctypes.addressof(printed) if prints else None,
        printed_bytes=ctypes.addressof(printed_bytes),
        uninitialized=ctypes.addressof(uninitialized),
        visits=visits.ctypes.data if counters else None,
        longest=longest.ctypes.data,
        longest_warp=ctypes.addressof(longest_warp),
        counters=ctypes.addressof(raw),
        fault=ctypes.addressof(fault),
        left_there=launch.left_there,
        programmatic=launch.programmatic,
        meeting_place=launch.meeting_place,
        has_heap=memory.has_heap,
        take=layout.TAKE(lambda nbytes: memory.heap.take(nbytes)),
        give=layout.GIVE(lambda address: memory.heap.give(address)),
    )
    watched = None
    if races:
        globals_ = module_globals or {}
        watched = watched_buffers(program.reference.reach, launch, memory, globals_)
    kept = _stamp(program, request, watched, table)
    failed = _watching(library, program, request, block_races, table, watched)
    del kept
    prints_of_launch = _prints(library, printed, printed_bytes.value)
    if failed:
        raise fault_of(program, launch, memory, fault, request.budget, block_races, watched)
    result_counters = _counters(program, visits, raw, table) if counters else Counters()
    met = [
        uninitialized_of(program, launch, memory, each) for each in uninitialized if each.block >= 0
    ]
    seen = None
    if counters and chosen.size:
        seen = Visits(
            tuple(visits.tolist()),
            tuple(longest.tolist()),
            longest_warp.instructions,
            longest_warp.block,
        )
    return LaunchReport(
        launch,
        int(chosen.size),
        result_counters,
        prints_of_launch,
        uninitialized=first_of_each(met),
        visits=seen,
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
        request.workers = request.precise = 1
        request.visits = request.printed = None
        table.watch(block_races, precise=True)
        if watched is not None:
            watched.clear()
        end = library.run_launch(ctypes.byref(request))
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
)
_STAMPS = ("writers", "readers", "adders", "writer_times", "reader_times", "adder_times")


class _Buffers:
    """The registered buffers as C sees them, with a byte for each sector where they count."""

    def __init__(self, memory: Memory, counters: bool) -> None:
        self.loaded: list[NDArray[np.bool_]] = []
        self.stored: list[NDArray[np.bool_]] = []
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

    def stamp(self, watched: WatchedBuffers) -> None:
        """Gives buffers the stamps of the check between threads of a block."""
        for row in self.rows:
            if (stamps := watched.by_address.get(row.address)) is not None:
                row.stamp_bits = watched.granule_bits
                for name in _STAMPS:
                    array = getattr(stamps, name)
                    setattr(row, f"stamp_{name}", None if array is None else array.ctypes.data)


def _counters(
    program: Program, visits: NDArray[np.uint64], raw: layout.Counters, table: _Buffers
) -> Counters:
    classes: Counter[str] = Counter()
    slots = alu = special = tensor = 0
    for count, mix in zip(visits.tolist(), program.reference.mixes, strict=True):
        if count:
            classes.update({name: count * each for name, each in mix.classes.items()})
            slots += count * mix.slots
            alu += count * mix.alu
            special += count * mix.special
            tensor += count * mix.tensor
    return Counters(
        warp_instructions=classes,
        lane_instructions=raw.lane_instructions,
        global_load_requests=raw.load_requests,
        global_load_sectors=raw.load_sectors,
        global_load_lines=raw.load_lines,
        global_load_wavefronts=raw.load_wavefronts,
        global_load_bytes=raw.load_bytes,
        global_store_requests=raw.store_requests,
        global_store_sectors=raw.store_sectors,
        global_store_lines=raw.store_lines,
        global_store_bytes=raw.store_bytes,
        store_packets=raw.store_packets,
        store_packet_thirds=raw.store_packet_thirds,
        unique_load_sectors=sum(int(np.count_nonzero(bitmap)) for bitmap in table.loaded),
        unique_store_sectors=sum(int(np.count_nonzero(bitmap)) for bitmap in table.stored),
        block_load_sectors=raw.block_sectors,
        block_load_lines=raw.block_lines,
        late_load_sectors=raw.late_sectors,
        load_buffer_sectors=sum(bitmap.size for bitmap in table.loaded if bitmap.any()),
        store_buffer_sectors=sum(bitmap.size for bitmap in table.stored if bitmap.any()),
        atomic_lanes=raw.atomic_lanes,
        atomic_turns=raw.atomic_turns,
        atomic_hottest_turns=raw.hottest_turns,
        atomic_float_turns=raw.float_turns,
        local_load_requests=raw.local_load_requests,
        local_load_sectors=raw.local_load_sectors,
        local_store_requests=raw.local_store_requests,
        local_store_sectors=raw.local_store_sectors,
        local_unique_sectors=raw.local_unique_sectors,
        shared_requests=raw.shared_requests,
        shared_wavefronts=raw.shared_wavefronts,
        constant_load_requests=raw.constant_requests,
        constant_load_words=raw.constant_words,
        critical_path_constant_words=raw.longest_constants,
        match_turns=raw.match_turns,
        critical_path_match_turns=raw.longest_matches,
        critical_path_sleep_ns=raw.longest_sleep_ns,
        barriers=raw.barriers,
        divergent_branches=raw.divergent_branches,
        critical_path_instructions=raw.longest_instructions,
        critical_path_cycles=raw.longest_cycles,
        issue_tenths=slots,
        alu_tenths=alu,
        special_tenths=special,
        tensor_tenths=tensor,
        critical_path_loads=raw.longest_loads,
        dependent_load_rounds=raw.longest_rounds,
        fresh_load_rounds=raw.fresh_rounds,
        mbarrier_rounds=raw.mbarrier_rounds,
        copy_cycles=raw.copy_cycles,
    )
