"""What C noted about a fault, in the words of the NumPy engine."""

from __future__ import annotations

from astra_chat.tools.virtual_gpu.c_engine import layout
from astra_chat.tools.virtual_gpu.c_engine.program import Program
from astra_chat.tools.virtual_gpu.isa.bulk_copies import BAD_SIZE, FLYING, STILL_READ
from astra_chat.tools.virtual_gpu.isa.mbarriers import MISUSES, UNORDERED, in_vain
from astra_chat.tools.virtual_gpu.memory.block_races import BlockRaces
from astra_chat.tools.virtual_gpu.memory.buffers import Memory
from astra_chat.tools.virtual_gpu.memory.heap import FREED_TWICE
from astra_chat.tools.virtual_gpu.memory.uninitialized_reads import unset_read
from astra_chat.tools.virtual_gpu.numpy_engine import frame as machine
from astra_chat.tools.virtual_gpu.numpy_engine.copies import UNWAITED
from astra_chat.tools.virtual_gpu.numpy_engine.ordered_races import UNSEEN, words_of
from astra_chat.tools.virtual_gpu.numpy_engine.pauses import IN_VAIN as GRID_IN_VAIN
from astra_chat.tools.virtual_gpu.numpy_engine.races import UNKNOWN_SITE, Verb, race_words
from astra_chat.tools.virtual_gpu.ptx.syntax import Instruction
from astra_chat.tools.virtual_gpu.types import WARP_LANES, Fault, Launch, UninitializedReads

_KINDS = (
    "", "out_of_bounds", "misaligned", "race", "trap", "assert", "shuffle_missing_lane",
    "barrier_divergence", "barrier_divergence", "barrier_divergence", "timeout", "illegal_branch",
    "missing_wait", "mbarrier", "race", "race", "missing_wait", "missing_wait", "missing_wait",
    "misaligned", "timeout", "race", "timeout", "bad_free",
)  # fmt: skip
"""By enum fault_kind."""
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
_MBARRIER, _UNORDERED_MBARRIER, _UNORDERED, _UNSEEN, _BULK, _STILL_READ, _SIZE, _IN_VAIN = range(
    13, 21
)
_CROSSING, _GRID, _BAD_FREE = 21, 22, 23
_ERRORS = {
    _BOUNDS: machine.ILLEGAL_ADDRESS, _MISALIGNED: machine.MISALIGNED,
    _ASSERT: machine.DEVICE_ASSERT, _TIMEOUT: machine.LAUNCH_TIMEOUT,
    _SIZE: machine.MISALIGNED, _IN_VAIN: machine.LAUNCH_TIMEOUT, _GRID: machine.LAUNCH_TIMEOUT,
}  # fmt: skip
_SPACES = ("global", "shared", "local", "param")
_RACE_VERBS: tuple[Verb, ...] = ("read", "wrote", "at once")
"""By enum verb of races.c."""


def fault_of(
    program: Program,
    launch: Launch,
    memory: Memory,
    found: layout.Fault,
    budget: int,
    crossings: BlockRaces | None = None,
) -> Fault:
    instruction = program.instructions[found.instruction]
    thread = found.warp * WARP_LANES + found.lane
    where = [f"kernel {launch.kernel}"]
    if instruction.source:
        where.append(instruction.source)
    block = machine.coordinates(found.block, launch.grid)
    where.append(f"block {block}, thread {machine.coordinates(thread, launch.block)}")
    where.append(f"PTX line {instruction.line}: {instruction.text}")
    return Fault(
        _KINDS[found.kind],
        crossings.words(
            _verb(found),
            found.detail[3],
            found.address,
            found.other,
            found.detail[1],
            bool(found.detail[0]),
        )
        if found.kind == _CROSSING and crossings is not None
        else _message(program, launch, memory, found, instruction, budget),
        cuda_error=_ERRORS.get(found.kind, machine.LAUNCH_FAILURE),
        where=", ".join(where),
    )


def unset_of(
    program: Program, launch: Launch, memory: Memory, found: layout.UninitializedReads
) -> UninitializedReads:
    in_shared = _SPACES[found.space] == "shared"
    return unset_read(
        program.instructions[found.instruction],
        (found.block, found.thread),
        (
            str(machine.coordinates(found.block, launch.grid)),
            str(machine.coordinates(found.thread, launch.block)),
        ),
        found.size,
        f"offset {found.address} of shared memory" if in_shared else memory.place(found.address),
    )


def _message(
    program: Program,
    launch: Launch,
    memory: Memory,
    found: layout.Fault,
    instruction: Instruction,
    budget: int,
) -> str:
    match found.kind:
        case 1:
            return f"{_access(found)} at {_place(program, launch, memory, found)}"
        case 2:
            return f"{_access(found)} at address {found.address:#x}"
        case 3:
            return _race(program, launch, found)
        case 12:
            return f"{UNWAITED} (shared offset {found.address})"
        case 5:
            text, file, function = (_string(memory, found.detail[i]) for i in (0, 1, 3))
            line = found.detail[2] & 0xFFFFFFFF
            return f"assertion `{text}` failed in {function}, {file}:{line}"
        case 8:
            other = program.instructions[found.other]
            return f"other threads wait at another barrier ({other.source or other.line})"
        case 10:
            return (
                f"more than {budget} instructions in a row: an endless loop, or a wait for "
                "another block"
            )
        case kind if kind in _PLAIN:
            return _PLAIN[kind]
        case _:
            return _of_mbarriers(found)


_PLAIN = {
    _TRAP: "the kernel stopped itself",
    _LANES: "a lane of the member mask is not at this instruction, or one that is not named is",
    _TORN: "only a part of the warp's threads reach this barrier",
    _STUCK: "some threads wait here, others elsewhere",
    _BRANCH: "an index outside the table of targets",
    _GRID: GRID_IN_VAIN,
    _BAD_FREE: FREED_TWICE,
}


_DID = ("read before", "wrote before", "writes at once")
"""By enum did of order.c."""


def _of_mbarriers(found: layout.Fault) -> str:
    match found.kind:
        case 13:
            return MISUSES[found.detail[0]]
        case 14:
            return UNORDERED
        case 15:
            thread = found.warp * WARP_LANES + found.lane
            did = _DID[found.detail[0]]
            return words_of(thread, _verb(found), found.detail[3], found.other, did, found.address)
        case 19:
            return BAD_SIZE.format(found.detail[3])
        case 20:
            return in_vain(found.address, found.detail[0])
        case kind:
            words = {_UNSEEN: UNSEEN, _BULK: FLYING, _STILL_READ: STILL_READ}[kind]
            return f"{words} (shared offset {found.address})"


def _verb(found: layout.Fault) -> str:
    return "write" if found.detail[4] else "read"


def _access(found: layout.Fault) -> str:
    return f"{_verb(found)} of {found.detail[3]} bytes"


def _place(program: Program, launch: Launch, memory: Memory, found: layout.Fault) -> str:
    space = _SPACES[found.space]
    if space == "global":
        return memory.describe(found.address)
    limits = {
        "shared": launch.dynamic_shared_bytes + program.reference.shared_bytes,
        "local": program.reference.local_bytes,
        "param": program.reference.kernel.param_bytes,
    }
    return f"{space} offset {found.address}; {limits[space]} bytes are there"


def _race(program: Program, launch: Launch, found: layout.Fault) -> str:
    known = found.other < min(len(program.instructions), UNKNOWN_SITE)
    verb, other, many, size, _ = found.detail
    return race_words(
        launch, _verb(found), size, _RACE_VERBS[verb], found.warp * WARP_LANES + found.lane, other,
        bool(many), program.instructions[found.other] if known else None, found.address,
    )  # fmt: skip


def _string(memory: Memory, address: int) -> str:
    """A C string in global memory."""
    buffer = memory.find(address)
    if buffer is None:
        return "?"
    data = buffer.data[address - buffer.address :].tobytes()
    return data.partition(b"\0")[0].decode(errors="replace")
