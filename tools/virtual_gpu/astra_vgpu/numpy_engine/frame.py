"""The state of one batch: some thread blocks whose lanes run together, as arrays over lanes.

Lane arrays have shape [blocks, threads], threads padded to whole warps. A value that is the same
along an axis has length 1 there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.isa.clocks import CLOCKS, CYCLES_PER_STEP
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.memory.uninitialized_reads import uninitialized_read
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.ptx.syntax import Instruction
from astra_vgpu.types import (
    WARP_LANES,
    Dim3,
    Fault,
    Launch,
    Print,
    UninitializedReads,
)

if TYPE_CHECKING:
    from astra_vgpu.memory.block_races import BlockRaces
    from astra_vgpu.memory.proxy_fences import ProxyFences
    from astra_vgpu.numpy_engine.address_spaces import Arena
    from astra_vgpu.numpy_engine.bulk import BulkGroups
    from astra_vgpu.numpy_engine.counters import BlockCounters
    from astra_vgpu.numpy_engine.mbarrier_state import Mbarriers
    from astra_vgpu.numpy_engine.pending_copies import CopyQueue
    from astra_vgpu.numpy_engine.shared_memory_races import RaceCheck
    from astra_vgpu.numpy_engine.warp_races import WarpRaces

Mask = NDArray[np.bool_]

ILLEGAL_ADDRESS = 700
LAUNCH_TIMEOUT = 702
DEVICE_ASSERT = 710
MISALIGNED = 716
LAUNCH_FAILURE = 719


@dataclass(frozen=True)
class Active:
    """The lanes that an instruction works for."""

    mask: Mask
    """[blocks, threads]"""
    count: int

    @property
    def dense(self) -> bool:
        """Every lane of the batch, padding included: no selection is needed."""
        return self.count == self.mask.size


@dataclass
class Frame:
    launch: Launch
    memory: Memory
    symbols: Mapping[str, int]
    """Addresses of the module's variables."""
    blocks: NDArray[np.int64]
    """Linear ids of the batch's thread blocks."""
    registers: list[Array]
    shared: Arena
    local: Arena
    params: Arena
    races: RaceCheck | None
    counters: BlockCounters | None
    live: Mask
    live_count: int = 0
    active: Active = field(init=False)
    full: bool = True
    """Whether all lanes that still live are active: a write needs no mask."""
    carry: Array = field(default_factory=lambda: np.zeros((1, 1), np.uint64))
    """The condition code of add.cc and its like."""
    steps: int = 0
    """Instructions issued so far: what the budget counts."""
    slept_ns: int = 0
    """What the batch slept so far, by the kernel's clocks: no budget counts it."""
    prints: list[Print] | None = None
    """What the kernel printed; None: not recorded."""
    block_races: BlockRaces | None = None
    """The check for races between blocks."""
    warp_races: WarpRaces | None = None
    """The check for races between threads of a block on global memory."""
    proxy_fences: ProxyFences | None = None
    """The check for bulk copies of what the launch stored; None where there is nothing to check."""
    waited: Mask | None = None
    """Which threads have waited for the work ahead of the launch (griddepcontrol.wait); None where
    the launch begins only once that has ended."""
    uninitialized: dict[int, UninitializedReads] = field(default_factory=dict)
    """Uninitialized reads, by PTX line."""
    copies: CopyQueue | None = None
    """cp.async copies in flight; made by the first."""
    bulk: BulkGroups | None = None
    """Bulk copies out of shared memory; made by the first."""
    mbarriers: Mbarriers | None = None
    """The batch's mbarriers; made by the first."""
    specials: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.live_count = int(np.count_nonzero(self.live))
        self.active = Active(self.live, self.live_count)

    @property
    def shape(self) -> tuple[int, int]:
        blocks, threads = self.live.shape
        return blocks, threads

    @property
    def elapsed_ns(self) -> int:
        """Time since the batch began, by the kernel's clocks."""
        return self.steps + self.slept_ns

    def sleep(self, slept_ns: NDArray[np.int64]) -> None:
        """slept_ns: of each lane, int64 [blocks, threads]."""
        self.slept_ns += int(slept_ns.max())
        if self.counters is not None:
            self.counters.sleep(slept_ns)

    def enter(self, active: Active) -> None:
        self.active = active
        self.full = active.count == self.live_count

    def synced(self, active: Active) -> None:
        """Lanes of these warps met: __syncwarp() or the like."""
        for races in (self.races, self.warp_races):
            if races is not None:
                races.synced(active)

    def leave(self, active: Active) -> None:
        """These lanes end."""
        self.live = self.live & ~active.mask
        self.live_count -= active.count

    def special(self, name: str) -> Array:
        if name not in self.specials:
            self.specials[name] = special_register(self, name)
        return self.specials[name]

    def note_uninitialized(
        self,
        instruction: Instruction,
        size: int,
        lane: int,
        place: Callable[[], str],
    ) -> None:
        """The `lane`-th lane of the batch read uninitialized memory. The first of all is kept."""
        row, thread = divmod(lane, self.shape[1])
        order = int(self.blocks[row]), thread
        known = self.uninitialized.get(instruction.line)
        if known is None or order < known.order:
            launch = self.launch
            names = str(coordinates(order[0], launch.grid)), str(coordinates(thread, launch.block))
            self.uninitialized[instruction.line] = uninitialized_read(
                instruction, order, names, size, place()
            )

    def fault(
        self,
        instruction: Instruction,
        kind: str,
        message: str,
        cuda_error: int,
        lane: int | None = None,
    ) -> Fault:
        """A Fault of the `lane`-th active lane (in order), or of the whole batch."""
        where = [f"kernel {self.launch.kernel}"]
        if instruction.source:
            where.append(instruction.source)
        if lane is not None:
            where.append(self.describe_lane(lane))
        where.append(f"PTX line {instruction.line}: {instruction.text}")
        return Fault(kind, message, cuda_error=cuda_error, where=", ".join(where))

    def place(self, instruction: Instruction, lane: int) -> str:
        """File and line of an instruction, or the line of the PTX; then what `describe_lane`
        says."""
        return f"{instruction.source or f'PTX line {instruction.line}'}, {self.describe_lane(lane)}"

    def describe_lane(self, lane: int) -> str:
        """`lane` counts through [blocks, threads]: the block and the thread in CUDA's terms."""
        row, thread = divmod(lane, self.shape[1])
        block = coordinates(int(self.blocks[row]), self.launch.grid)
        return f"block {block}, thread {coordinates(thread, self.launch.block)}"


def coordinates(linear: int, extent: Dim3) -> tuple[int, int, int]:
    rest, x = divmod(linear, extent.x)
    z, y = divmod(rest, extent.y)
    return x, y, z


def padded_threads(block: Dim3) -> int:
    return block.warps * WARP_LANES


RESERVED = "%reserved_smem_offset_1"
"""Where shared memory begins that cooperative_groups uses for tiles of several warps."""
SPECIALS = (
    frozenset(
        [f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
        + [f"%lanemask_{which}" for which in ("eq", "lt", "le", "gt", "ge")]
        + ["%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid"]
        + ["%dynamic_smem_size", "%total_smem_size", "%envreg1", "%envreg2", RESERVED]
    )
    | CLOCKS
)
SPECIAL_64 = frozenset({"%clock64", "%globaltimer", "%gridid"})
_SMS = 132


def special_register(frame: Frame, name: str) -> Array:
    """Value of a special register: uint32 or, for SPECIAL_64, uint64; broadcastable to lanes."""
    base, _, axis = name[1:].partition(".")
    launch = frame.launch
    if axis:
        extents = {"ntid": launch.block, "nctaid": launch.grid}
        if base in extents:
            return _scalar(getattr(extents[base], axis))
        if base == "tid":
            return _axis(np.arange(frame.shape[1])[None, :], launch.block, axis)
        return _axis(frame.blocks[:, None], launch.grid, axis)
    thread = np.arange(frame.shape[1], dtype=np.uint32)[None, :]
    if base.startswith("lanemask_"):
        return _lanemask(thread % WARP_LANES, base.removeprefix("lanemask_"))
    values: dict[str, Array] = {
        "laneid": thread % np.uint32(WARP_LANES),
        "warpid": thread // np.uint32(WARP_LANES),
        "nwarpid": _scalar(frame.shape[1] // WARP_LANES),
        "smid": (frame.blocks[:, None] % _SMS).astype(np.uint32),
        "nsmid": _scalar(_SMS),
        "gridid": np.ones((1, 1), np.uint64),
        "dynamic_smem_size": _scalar(launch.dynamic_shared_bytes),
        "total_smem_size": _scalar(frame.shared.limit),
        RESERVED[1:]: _scalar(frame.shared.reserved_at),
        # Where the blocks of a cooperative launch meet, as cooperative_groups reads it.
        "envreg1": _scalar(launch.meeting_place >> 32),
        "envreg2": _scalar(launch.meeting_place & 0xFFFFFFFF),
    }
    return values[base]


def clock(frame: Frame, name: str) -> Array:
    """Fiction: it counts the steps of the batch, and what it slept (isa/clocks.py)."""
    if name == "%clock_hi":
        return _scalar(0)
    elapsed = frame.elapsed_ns
    if name.startswith("%clock"):
        elapsed *= CYCLES_PER_STEP
    long = np.full((1, 1), elapsed, np.uint64)
    return long if name in SPECIAL_64 else long.astype(np.uint32)


def _scalar(value: int) -> Array:
    return np.full((1, 1), value, np.uint32)


def _axis(linear: Array, extent: Dim3, axis: str) -> Array:
    if axis == "x":
        return (linear % extent.x).astype(np.uint32)
    if axis == "y":
        return (linear // extent.x % extent.y).astype(np.uint32)
    return (linear // (extent.x * extent.y)).astype(np.uint32)


def _lanemask(lane: Array, which: str) -> Array:
    one = np.uint64(1) << lane.astype(np.uint64)
    everything = np.uint64(0xFFFFFFFF)
    masks = {
        "eq": one,
        "lt": one - np.uint64(1),
        "le": one * np.uint64(2) - np.uint64(1),
        "gt": everything - (one * np.uint64(2) - np.uint64(1)),
        "ge": everything - (one - np.uint64(1)),
    }
    return masks[which].astype(np.uint32)


def blocks_of(launch: Launch, chosen: Sequence[int] | None) -> NDArray[np.int64]:
    if chosen is None:
        return np.arange(launch.grid.count, dtype=np.int64)
    return np.asarray(chosen, dtype=np.int64)
