"""Fault records of the C engine as messages: the same text as the NumPy engine's."""

from __future__ import annotations

from collections.abc import Callable

from astra_vgpu.c_engine import layout
from astra_vgpu.c_engine.program import Program
from astra_vgpu.isa.bulk_copies import (
    BAD_SIZE,
    COPY_IN_FLIGHT,
    COPY_READS_AT_END,
    COPY_STILL_READING,
    NOT_FENCED,
)
from astra_vgpu.isa.mbarriers import MISUSES, UNORDERED, hang_message
from astra_vgpu.lowering.shared_arrays import outside_arrays
from astra_vgpu.memory.block_races import DID, STORED_AND_CACHED, BlockRaces
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.memory.bulk_stores import unfinished_message
from astra_vgpu.memory.early_accesses import early_message
from astra_vgpu.memory.heap import FREED_TWICE
from astra_vgpu.memory.uninitialized_reads import absent, uninitialized_read
from astra_vgpu.memory.warp_races import KIND as WARP_RACE
from astra_vgpu.memory.warp_races import WatchedBuffers
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.barriers import (
    STUCK,
    TORN,
    later_barrier_message,
    other_barrier_message,
)
from astra_vgpu.numpy_engine.grid_sync import HANG as GRID_HANG
from astra_vgpu.numpy_engine.mbarrier_races import UNSEEN, mbarrier_race_message
from astra_vgpu.numpy_engine.pending_copies import COPY_NOT_AWAITED
from astra_vgpu.numpy_engine.schedule import shared_limit
from astra_vgpu.numpy_engine.shared_memory_races import (
    UNKNOWN_SITE,
    Verb,
    race_message,
)
from astra_vgpu.numpy_engine.warps import MASK_MISMATCH
from astra_vgpu.ptx.syntax import Instruction
from astra_vgpu.types import WARP_LANES, Fault, Launch, UninitializedReads

_KINDS = (
    "", "out_of_bounds", "misaligned", "race", "trap", "assert", "shuffle_missing_lane",
    "barrier_divergence", "barrier_divergence", "barrier_divergence", "timeout", "illegal_branch",
    "missing_wait", "mbarrier", "race", "race", "missing_wait", "missing_wait", "missing_wait",
    "misaligned", "timeout", "race", "timeout", "bad_free", "race", "missing_wait",
    "missing_fence", "race", "race", "barrier_divergence", "missing_wait",
)  # fmt: skip
"""Kind of fault by value of `enum fault_kind` (simt.h)."""
(
    _,
    _BOUNDS,
    _MISALIGNED,
    _RACE,
    _TRAP,
    _ASSERT,
    _LANES,
    _TORN,
    _MIXED,
    _STUCK,
    _TIMEOUT,
    _BRANCH,
    _WAIT,
) = range(13)
_MBARRIER, _UNORDERED_MBARRIER, _UNORDERED, _UNAWAITED_BULK, _BULK, _STILL_READ, _SIZE, _IN_VAIN = (
    range(13, 21)
)
_BLOCK_RACE, _GRID, _BAD_FREE, _CACHED, _READ_AT_END, _NOT_FENCED, _WARP_RACE, _EARLY, _ROUND = (
    range(21, 30)
)
_UNFINISHED = 30
_ERRORS = {
    _BOUNDS: machine.ILLEGAL_ADDRESS,
    _MISALIGNED: machine.MISALIGNED,
    _ASSERT: machine.DEVICE_ASSERT,
    _TIMEOUT: machine.LAUNCH_TIMEOUT,
    _SIZE: machine.MISALIGNED,
    _IN_VAIN: machine.LAUNCH_TIMEOUT,
    _GRID: machine.LAUNCH_TIMEOUT,
}
_SPACES = ("global", "shared", "local", "param")
_RACE_VERBS: tuple[Verb, ...] = ("read", "wrote", "at once", "changed atomically")
"""What the other access did, by value of `enum verb` (stamps.h)."""


def fault_of(
    program: Program,
    launch: Launch,
    memory: Memory,
    record: layout.FaultRecord,
    budget: int,
    block_races: BlockRaces | None = None,
    watched: WatchedBuffers | None = None,
) -> Fault:
    instruction = program.instructions[record.instruction]
    thread = record.warp * WARP_LANES + record.lane
    where = [f"kernel {launch.kernel}"]
    if instruction.source:
        where.append(instruction.source)
    block = machine.coordinates(record.block, launch.grid)
    where.append(f"block {block}, thread {machine.coordinates(thread, launch.block)}")
    where.append(f"PTX line {instruction.line}: {instruction.text}")
    if record.kind == _BLOCK_RACE and block_races is not None:
        message = block_races.message(
            _verb(record),
            record.detail[3],
            record.address,
            record.other,
            record.detail[1],
            DID[record.detail[0]],
        )
    elif record.kind == _EARLY:
        place = memory.place(record.address)
        message = early_message(_verb(record), record.detail[3], place)
    elif record.kind == _UNFINISHED:
        place = memory.place(record.address)
        message = unfinished_message(_verb(record), record.detail[3], place)
    elif record.kind == _WARP_RACE and watched is not None:
        message = _warp_race(launch, memory, record, thread, watched)
    else:
        message = _message(program, launch, memory, record, instruction, budget)
    return Fault(
        _KINDS[record.kind],
        message,
        cuda_error=_ERRORS.get(record.kind, machine.LAUNCH_FAILURE),
        where=", ".join(where),
    )


def uninitialized_of(
    program: Program, launch: Launch, memory: Memory, record: layout.UninitializedReads
) -> UninitializedReads:
    places: dict[str, Callable[[], str]] = {
        "shared": lambda: f"offset {record.address} of shared memory",
        "local": lambda: absent(record.address),
    }
    place = places.get(_SPACES[record.space], lambda: memory.place(record.address))
    return uninitialized_read(
        program.instructions[record.instruction],
        (record.block, record.thread),
        (
            str(machine.coordinates(record.block, launch.grid)),
            str(machine.coordinates(record.thread, launch.block)),
        ),
        record.size,
        place(),
    )


def _message(
    program: Program,
    launch: Launch,
    memory: Memory,
    record: layout.FaultRecord,
    instruction: Instruction,
    budget: int,
) -> str:
    match record.kind:
        case 1:
            return _out_of_bounds(program, launch, memory, record, instruction)
        case 2:
            return f"{_access(record)} at address {record.address:#x}"
        case 3:
            return _race(program, launch, record)
        case kind if kind == _NOT_FENCED:
            return f"{NOT_FENCED} (shared offset {record.address})"
        case 12:
            return f"{COPY_NOT_AWAITED} (shared offset {record.address})"
        case 5:
            text, file, function = (_string(memory, record.detail[i]) for i in (0, 1, 3))
            line = record.detail[2] & 0xFFFFFFFF
            return f"assertion `{text}` failed in {function}, {file}:{line}"
        case kind if kind in _OF_TWO_BARRIERS:
            return _OF_TWO_BARRIERS[kind](program.instructions[record.other])
        case 10:
            return (
                f"more than {budget} instructions in a row: an infinite loop, or a wait for "
                "another block"
            )
        case kind if kind in _PLAIN:
            return _PLAIN[kind]
        case _:
            return _of_mbarriers(record)


_OF_TWO_BARRIERS = {_MIXED: other_barrier_message, _ROUND: later_barrier_message}
_PLAIN = {
    _TRAP: "the kernel stopped itself",
    _LANES: MASK_MISMATCH,
    _TORN: TORN,
    _STUCK: STUCK,
    _BRANCH: "a branch index outside the branch table",
    _GRID: GRID_HANG,
    _BAD_FREE: FREED_TWICE,
    _CACHED: STORED_AND_CACHED,
    _READ_AT_END: COPY_READS_AT_END,
}


_DID = ("read before", "wrote before", "writes at once")
"""What the other access did, by value of `enum did` of mbarrier_races.c."""


def _of_mbarriers(record: layout.FaultRecord) -> str:
    match record.kind:
        case 13:
            return MISUSES[record.detail[0]]
        case 14:
            return UNORDERED
        case 15:
            thread = record.warp * WARP_LANES + record.lane
            did = _DID[record.detail[0]]
            return mbarrier_race_message(
                thread, _verb(record), record.detail[3], record.other, did, record.address
            )
        case 19:
            return BAD_SIZE.format(record.detail[3])
        case 20:
            return hang_message(record.address, record.detail[0])
        case kind:
            message = {
                _UNAWAITED_BULK: UNSEEN,
                _BULK: COPY_IN_FLIGHT,
                _STILL_READ: COPY_STILL_READING,
            }[kind]
            return f"{message} (shared offset {record.address})"


def _verb(record: layout.FaultRecord) -> str:
    return "write" if record.detail[4] else "read"


def _access(record: layout.FaultRecord) -> str:
    return f"{_verb(record)} of {record.detail[3]} bytes"


def _out_of_bounds(
    program: Program,
    launch: Launch,
    memory: Memory,
    record: layout.FaultRecord,
    instruction: Instruction,
) -> str:
    arrays = program.reached.get(id(instruction), ())
    there = record.address + record.detail[3] <= shared_limit(program.reference, launch)
    if _SPACES[record.space] == "shared" and arrays and there:
        return outside_arrays(_access(record), record.address, arrays)
    return f"{_access(record)} at {_place(program, launch, memory, record)}"


def _place(program: Program, launch: Launch, memory: Memory, record: layout.FaultRecord) -> str:
    space = _SPACES[record.space]
    if space == "global":
        return memory.describe(record.address)
    limits = {
        "shared": launch.dynamic_shared_bytes + program.reference.shared_bytes,
        "local": program.reference.local_bytes,
        "param": program.reference.kernel.param_bytes,
    }
    return f"{space} offset {record.address}; {limits[space]} bytes are there"


def _race(program: Program, launch: Launch, record: layout.FaultRecord) -> str:
    known = record.other < min(len(program.instructions), UNKNOWN_SITE)
    verb, other, many, size, _ = record.detail
    return race_message(
        launch,
        _verb(record),
        size,
        _RACE_VERBS[verb],
        record.warp * WARP_LANES + record.lane,
        other,
        bool(many),
        program.instructions[record.other] if known else None,
        f"shared offset {record.address}",
    )


def _warp_race(
    launch: Launch, memory: Memory, record: layout.FaultRecord, thread: int, watched: WatchedBuffers
) -> str:
    verb, other, many, size, _ = record.detail
    return race_message(
        launch,
        _verb(record),
        size,
        _RACE_VERBS[verb],
        thread,
        other,
        bool(many),
        watched.site(record.other),
        memory.place(record.address),
        WARP_RACE,
    )


def _string(memory: Memory, address: int) -> str:
    """A C string in global memory."""
    buffer = memory.find(address)
    if buffer is None:
        return "?"
    data = buffer.data[address - buffer.address :].tobytes()
    return data.partition(b"\0")[0].decode(errors="replace")
