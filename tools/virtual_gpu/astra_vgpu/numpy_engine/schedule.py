"""Runs a Program over the blocks of a launch, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.ground.freed_memory import keep_freed_memory
from astra_vgpu.memory.block_races import BlockRaces, block_races_of, watched
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.memory.bulk_stores import NDPieces, attach, unfinished_stores
from astra_vgpu.memory.proxy_fences import ProxyFences, proxy_fences_of
from astra_vgpu.memory.uninitialized_reads import first_of_each
from astra_vgpu.memory.warp_races import watched_buffers
from astra_vgpu.numpy_engine.address_spaces import Arena, make_arena
from astra_vgpu.numpy_engine.batch import Batch
from astra_vgpu.numpy_engine.counters import BlockCounters, LaunchCounters
from astra_vgpu.numpy_engine.dtypes import Array, unsigned
from astra_vgpu.numpy_engine.frame import (
    Frame,
    blocks_of,
    padded_threads,
)
from astra_vgpu.numpy_engine.mbarrier_races import OrderedRaces
from astra_vgpu.numpy_engine.program import Program
from astra_vgpu.numpy_engine.shared_memory_races import RaceCheck
from astra_vgpu.numpy_engine.unset_registers import other_content
from astra_vgpu.numpy_engine.warp_races import WarpRaces
from astra_vgpu.types import (
    Counters,
    Fault,
    Launch,
    LaunchReport,
    Print,
    UninitializedReads,
)

BATCH_LANES = 32768
"""Lanes that run cooperative: enough to hide the cost of a NumPy call, few enough for the cache."""
INSTRUCTION_BUDGET = 1 << 33
"""Instructions of single threads that one batch may issue before it counts as an infinite loop:
some seconds. All threads of the batch count, idle ones too, and at least batch.MIN_LANES."""
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
    unfinished: Mapping[int, NDPieces] | None = None,
    proxy_fences: ProxyFences | None = None,
    in_order: bool | None = None,
) -> LaunchReport:
    """Runs the launch, or the given linear block ids of it, on host memory.

    module_globals: address of each variable of the module. Without `counters` those of the report
    stay zero, all but lane_instructions, without `prints` what the kernel prints is dropped.
    block_races, unfinished, proxy_fences: of the launch, where other parts of it run elsewhere;
    an own check of proxy fences is made where none is given. in_order: one
    block after the other, from the first; None: as program.in_order says. Raises Fault where a GPU
    or its sanitizer would stop, KeyError for a variable of the module without an address.
    """
    keep_freed_memory()
    variables = module_globals or {}
    chosen = blocks_of(launch, blocks)
    threads = padded_threads(launch.block)
    one_by_one = program.in_order if in_order is None else in_order
    step = chosen.size if program.cooperative else _step(program, threads, one_by_one)
    launch_counters = LaunchCounters() if counters else None
    room = shared_limit(program, launch)
    if program.has_heap:
        _ = memory.heap
    if block_races is None:
        block_races = block_races_of(program.reach, launch, memory, variables)
    watched_here = watched_buffers(program.reach, launch, memory, variables)
    if unfinished is None:
        unfinished = unfinished_stores(program.reach, launch, memory, variables)
    attach(memory, unfinished)
    if proxy_fences is None:
        proxy_fences = proxy_fences_of(program.reach, launch, memory, variables)
    printed: list[Print] = []
    uninitialized: list[UninitializedReads] = []
    lane_instructions = 0
    starts = range(0, chosen.size, step)
    if memory.descending and not one_by_one:
        starts = starts[::-1]
    for start in starts:
        some = chosen[start : start + step]
        frame = _frame(program, launch, memory, variables, some, launch_counters, room)
        frame.prints = printed if prints else None
        frame.block_races = block_races
        frame.proxy_fences = proxy_fences
        if watched_here is not None:
            frame.warp_races = WarpRaces(frame.shape, watched_here)
        with np.errstate(all="ignore"), watched(block_races):
            lane_instructions += _ran(Batch(program, frame, instruction_budget), frame)
        if frame.counters is not None:
            frame.counters.finish()
        uninitialized += frame.uninitialized.values()
    result_counters = launch_counters.finish() if launch_counters else Counters()
    result_counters.lane_instructions = lane_instructions
    return LaunchReport(
        launch,
        int(chosen.size),
        result_counters,
        tuple(printed),
        uninitialized=first_of_each(uninitialized),
        visits=launch_counters.visits if launch_counters else None,
    )


def _ran(batch: Batch, frame: Frame) -> int:
    """Runs the batch; returns the instructions of single threads."""
    try:
        batch.run()
    except Fault as fault:
        fault.unset = first_of_each(frame.uninitialized.values())
        raise
    return batch.lane_instructions


def _step(program: Program, threads: int, one_by_one: bool) -> int:
    """Blocks of a batch."""
    if one_by_one:
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
    left = launch.left_there
    shared = make_arena("shared", shape[0], shared_limit, (shape[0], 1), left)
    shared.reached = program.reached
    if shared_limit:
        shared.filled = np.zeros(shared.data.size, np.uint8)
    if program.reserves:
        shared.reserved_at = shared_limit - RESERVED_BYTES
        for bytes_, value in ((shared.data, 0), (shared.filled, 1)):
            assert bytes_ is not None
            bytes_.reshape(shape[0], -1)[:, shared.reserved_at :] = value
    local = make_arena("local", shape[0] * shape[1], program.local_bytes, shape, left)
    races = None
    if program.shared_granule and shared_limit:
        check = OrderedRaces if program.has_mbarriers else RaceCheck
        races = check(shape, shared.data.size, program.shared_granule)
    return Frame(
        launch=launch,
        memory=memory,
        symbols=symbols,
        blocks=ids,
        registers=_registers(program, shape[1]),
        shared=shared,
        local=local,
        params=_params(program, launch),
        races=races,
        counters=BlockCounters(launch_counters, shape, program.mixes, program.local_bytes, ids)
        if launch_counters
        else None,
        live=exists,
        waited=np.zeros(shape, np.bool_) if launch.programmatic else None,
    )


def _registers(program: Program, threads: int) -> list[Array]:
    """All zero, but for twins of those that may be read unset."""
    registers: list[Array] = [np.zeros((1, 1), unsigned(width)) for width in program.widths]
    for twin, register in program.twins.items():
        unset = twin in program.unset
        width = program.widths[twin]
        registers[twin] = other_content(width, threads) if unset else registers[register]
    return registers


def _params(program: Program, launch: Launch) -> Arena:
    arena = make_arena("param", 1, program.kernel.param_bytes, (1, 1))
    data = np.frombuffer(launch.params, np.uint8)[: program.kernel.param_bytes]
    arena.data[: data.size] = data
    return arena
