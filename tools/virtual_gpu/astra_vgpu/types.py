"""Values that the parts of the virtual GPU exchange: launches, counters, reports, faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

WARP_LANES = 32
SECTOR_BYTES = 32
LINE_BYTES = 128
ATOMIC_REGION_BYTES = 512
"""One slice of L2 serves so much: atomics there wait for each other."""
FLOAT_TRIES = 3
"""Turns of shared memory for an atomic sum of floats, which machine code tries until it succeeds;
measured on an H200, as that integers take one."""
PRINT_BYTES = 512
"""Most bytes of the arguments of one printf."""
MAX_PRINTS = 16384
"""Most prints of one launch: the rest is lost, as where a GPU's buffer is full."""
Engine = Literal["auto", "numpy", "c"]
"""Which engine runs kernels; `auto` takes C for large launches (launch/engines.py)."""
ENGINES: tuple[Engine, ...] = get_args(Engine)


@dataclass(frozen=True)
class Dim3:
    x: int
    y: int = 1
    z: int = 1

    @property
    def count(self) -> int:
        return self.x * self.y * self.z

    @property
    def warps(self) -> int:
        """Warps of a block of so many threads; the last one may not be whole."""
        return -(-self.count // WARP_LANES)


MEETING_BYTES = 8
"""Words at which the blocks of a cooperative launch meet."""


NAN_BITS = 0xFFFF
"""A NaN in every float that they are repeated to."""


@dataclass(frozen=True)
class Launch:
    """One kernel launch as the host code made it."""

    kernel: str
    """Mangled entry name in the PTX."""
    grid: Dim3
    block: Dim3
    dynamic_shared_bytes: int
    params: bytes
    """Kernel parameters, laid out as the PTX entry declares them."""
    meeting_place: int = 0
    """Address of the words at which the blocks of a cooperative launch meet; 0: no such launch."""
    programmatic: bool = False
    """It may begin before the work ahead of it has ended (programmatic dependent launch)."""
    left_there: int = NAN_BITS
    """16 bits that shared and local memory hold, over and over, where nothing was written yet."""


@dataclass
class Counters:
    """Exact counts of the blocks that ran. Warp instructions count once a warp, not once a lane."""

    warp_instructions: Counter[str] = field(default_factory=Counter)
    """Warp instructions by class: int, float, half, special, convert, global, shared, shuffle,
    atomic, barrier, control, move, tensor."""
    machine_instructions: Counter[str] = field(default_factory=Counter)
    """Machine instructions by unit (sass/functional_units.py), where the machine code is known: its
    instructions are exact, how often each ran is worked out from the PTX's basic blocks. What else
    depends on the machine code is then taken from there: issue, alu and special tenths, critical
    path cycles, rounds of loads."""
    lane_instructions: int = 0
    """Active lanes summed over warp instructions: over 32 x warp instructions = efficiency."""
    global_load_requests: int = 0
    global_load_sectors: int = 0
    """32-byte sectors over all requests."""
    global_load_lines: int = 0
    """128-byte lines over all requests."""
    global_load_wavefronts: int = 0
    """Wavefronts of L1's data, whose banks are those of shared memory."""
    global_load_bytes: int = 0
    """Bytes that lanes asked for."""
    global_store_requests: int = 0
    global_store_sectors: int = 0
    global_store_lines: int = 0
    global_store_bytes: int = 0
    store_packets: int = 0
    """Packets that L1 would hand to L2 for stores each by itself: two for each line of a request,
    one for each sector, and another one for each that is not filled (Nsight Compute and times,
    H200)."""
    store_packet_thirds: int = 0
    """Packets that L1 does hand over, three times: of a run (lowering/store_merging.py) what all
    its stores are together, or a third less of each."""
    unique_load_sectors: int = 0
    """Different sectors read by the launch: what a cold L2 must fetch from DRAM."""
    unique_store_sectors: int = 0
    block_load_sectors: int = 0
    """Different sectors read by a block, summed over blocks: what an L1 that forgets nothing must
    fetch."""
    block_load_lines: int = field(default=0, compare=False)
    """Lines, over all requests, with a sector that is new to the block. Depends on the order of a
    block's warps, in which the engines differ: it counts for no equality."""
    late_load_sectors: int = field(default=0, compare=False)
    """Sectors that a block reads again and that no warp of it touched in this round of loads or the
    one before: L1 must have kept them."""
    common_load_sectors: int = 0
    """Sectors that each block reads, by the first ones that ran."""
    load_buffer_sectors: int = 0
    """Sectors of all buffers that were read from: unique sectors cannot be more."""
    store_buffer_sectors: int = 0
    atomic_lanes: int = 0
    """Single threads' atomic operations on global memory."""
    atomic_turns: int = 0
    """Turns of L2's units for atomics: one for each sector of a request, more where lanes want one
    address; one for a warp that works on a single integer, which ptxas gathers."""
    atomic_hottest_turns: int = 0
    """Turns of atomics on the busiest ATOMIC_REGION_BYTES of a buffer."""
    atomic_float_turns: int = 0
    """Turns of float atomics on the busiest sector: each waits for the sum before."""
    local_load_requests: int = 0
    """Requests to local memory, as far as it is memory (lowering/local_memory.py): one for each
    32-bit word of a lane's access. The words of a warp's lanes lie side by side, so eight lanes
    share a sector."""
    local_load_sectors: int = 0
    """32-byte sectors of local memory over all requests."""
    local_store_requests: int = 0
    local_store_sectors: int = 0
    local_unique_sectors: int = 0
    """Different sectors that a block touched, summed over blocks."""
    shared_requests: int = 0
    shared_wavefronts: int = 0
    """One a request without bank conflicts; of atomics, one for each lane at the busiest bank."""
    constant_load_requests: int = 0
    """Requests for constants and kernel parameters at addresses that the kernel computes: one a
    warp."""
    constant_load_words: int = 0
    """Different words, as wide as a lane's access but at least 4 bytes, of each such request: the
    constant cache serves one word at a time."""
    critical_path_constant_words: int = 0
    """Most words of any one warp beyond the first of each request."""
    match_turns: int = 0
    """Turns of match.any: one for each different value of a warp's lanes."""
    critical_path_match_turns: int = 0
    """Most turns of match.any in any one warp."""
    critical_path_sleep_ns: int = 0
    """What any one warp slept at most (nanosleep): of its lanes that sleep together the longest."""
    barriers: int = 0
    """Block barriers, counted once a warp."""
    divergent_branches: int = 0
    critical_path_instructions: int = 0
    """Most warp instructions that any one warp ran."""
    critical_path_cycles: int = 0
    """Longest chain of results that wait for each other within basic blocks, summed over those that
    any one warp ran; without the wait for global memory (numpy_engine/instruction_costs.py)."""
    critical_path_before_load: int = 0
    """Part of critical_path_cycles before the warp first waits for global memory; 0 where the
    machine code is not known."""
    critical_path_units: Counter[str] = field(default_factory=Counter)
    """critical_path_cycles by the unit that they are spent on: its results, its queue, its issue;
    empty where the machine code is not known."""
    critical_path_lines: Counter[str] = field(default_factory=Counter)
    """critical_path_cycles by the source line whose result or issue they are spent on, with the
    calls that it is inlined at (Instruction.own_lines); what comes from none is left out."""
    critical_path_load_lines: Counter[str] = field(default_factory=Counter)
    """Rounds of global loads that the same warp waits for, by the source lines of the load and of
    what waits for it (debug_lines.WAITED)."""
    issue_tenths: int = 0
    """Machine instructions that the warp instructions come to, about, times ten."""
    alu_tenths: int = 0
    """Tenths of machine instructions that only the unit for logic and comparisons serves."""
    special_tenths: int = 0
    """Tenths of instructions of the unit for special functions, which conversions to integers,
    counts of bits and quotients need too."""
    tensor_tenths: int = 0
    """Work of tensor cores: a product m16n8k16 of 16-bit floats counts ten."""
    critical_path_loads: int = 0
    """Most global load instructions that any one warp ran."""
    dependent_load_rounds: int = 0
    """Longest chain, in one warp, of global loads each followed by a use before the next is issued:
    how often memory latency is paid one after the other."""
    fresh_load_rounds: int = field(default=0, compare=False)
    """Most rounds of any one warp with a sector new to its block. Depends a little on the order of
    a block's warps, in which the engines differ: it counts for no equality."""
    mbarrier_rounds: int = 0
    """Most rounds that any one warp waited for at mbarriers: for bulk copies, and for the loads of
    warps that arrived there."""
    copy_cycles: int = 0
    """Most cycles that bulk copies took beyond rounds of loads, of those for which one warp waited
    one after the other."""

    @property
    def further_constant_words(self) -> int:
        """Words of all constant loads beyond the first of each."""
        return self.constant_load_words - self.constant_load_requests


@dataclass(frozen=True, kw_only=True)
class Visits:
    """How often warps came to each basic block of the PTX."""

    total: tuple[int, ...]
    """Visits of all warps, by basic block."""
    longest: tuple[int, ...]
    """Visits of the warp that ran most instructions, by basic block; of several such warps, the
    first of the first block."""
    instructions: int
    """Instructions that the warp of `longest` ran."""
    block: int
    """Linear number of the block of the warp of `longest`."""

    def __add__(self, other: Visits) -> Visits:
        """Joins the visits of two disjoint sets of thread blocks."""
        first, second = ((-v.instructions, v.block) for v in (self, other))
        longest = self if first <= second else other
        total = tuple(a + b for a, b in zip(self.total, other.total, strict=True))
        return replace(longest, total=total)


@dataclass(frozen=True)
class Print:
    """One printf of one thread."""

    block: int
    """Linear number of the thread's block."""
    format: int
    """Address of the format, in global memory."""
    arguments: bytes
    """Arguments as vprintf gets them, and what lies behind."""


@dataclass(frozen=True)
class UninitializedReads:
    """The first such read of an instruction: by block, then by thread."""

    line: int
    """Line of the PTX."""
    source: str
    """File and line, or empty."""
    text: str
    block: str
    """Block as CUDA numbers it."""
    thread: str
    """Thread as CUDA numbers it."""
    order: tuple[int, int]
    """Block and thread, linear."""
    size: int
    place: str
    """Buffer and offset."""

    @property
    def what(self) -> str:
        return f"uninitialized read of {self.size} bytes at {self.place}"

    @property
    def advice(self) -> str:
        if " shfl." in f" {self.text}":
            return "let every lane that is read take part, or do not use what the others give"
        return "it may hold anything: clear it with a memset, or in the kernel, before it is read"

    def message(self, kernel: str) -> str:
        source = f"{self.source}, " if self.source else ""
        return (
            f"{self.what}"
            f" (kernel {kernel}, {source}block {self.block}, thread {self.thread}, PTX line"
            f" {self.line}: {self.text})"
        )


@dataclass(frozen=True)
class LaunchReport:
    """What one launch did."""

    launch: Launch
    blocks_run: int
    """All of them, or the stated sample."""
    counters: Counters
    prints: tuple[Print, ...] = field(default=(), compare=False)
    ran: Sequence[int] | None = field(default=None, compare=False)
    """The blocks that ran of a sample, linear; None: all, or as the caller chose."""
    uninitialized: tuple[UninitializedReads, ...] = ()
    """Uninitialized reads."""
    visits: Visits | None = None
    """None without counters."""
    waited: bool = field(default=False, compare=False)
    """Those that ran are the first ones: a block of a spread sample waited for one outside it."""

    @property
    def sampled(self) -> bool:
        return self.blocks_run < self.launch.grid.count


class PtxUnsupported(Exception):
    """The virtual GPU does not support an instruction or a form of it; raised before anything
    ran."""

    def __init__(self, what: str, *, kernel: str, opcode: str, line: int) -> None:
        super().__init__(f"kernel {kernel}: PTX line {line}: {what} is not supported ({opcode})")
        self.what, self.kernel, self.opcode, self.line = what, kernel, opcode, line


def titled(kind: str, message: str) -> str:
    """The kind of a fault and its message; the kind once, where the message names it first."""
    head, colon, _ = message.partition(": ")
    named = colon and (head.startswith(f"{kind} ") or head.endswith(kind))
    return message if named else f"{kind}: {message}"


class Fault(Exception):
    """The kernel did what a GPU or its sanitizer would stop: carries the CUDA error it maps to."""

    def __init__(self, kind: str, message: str, *, cuda_error: int, where: str) -> None:
        super().__init__(f"{titled(kind, message)} ({where})")
        self.kind, self.message, self.cuda_error, self.where = kind, message, cuda_error, where
        self.unset: tuple[UninitializedReads, ...] = ()
        """Uninitialized reads of the launch until then: what they gave may be the cause."""
