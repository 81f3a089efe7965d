"""Exact counters: instructions by class, sectors, bank conflicts, critical path."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.memory.buffers import Buffer
from astra_vgpu.numpy_engine.address_spaces import BufferRegion, Site
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.first_touch import FirstTouchRounds, Rounds
from astra_vgpu.numpy_engine.frame import Active
from astra_vgpu.numpy_engine.l2_atomics import AtomicTurns
from astra_vgpu.numpy_engine.store_packets import (
    LINE_SHIFT,
    SECTOR_SHIFT,
    packets_in,
    packets_of,
    per_warp,
)
from astra_vgpu.types import (
    FLOAT_TRIES,
    LINE_BYTES,
    SECTOR_BYTES,
    WARP_LANES,
    Counters,
    Visits,
)


class ConstantLoads:
    """Constant loads of one batch: the constant cache serves a warp word by word."""

    def __init__(self, counters: Counters, shape: tuple[int, int]) -> None:
        """shape: blocks and threads of the batch."""
        self._counters, self._shape = counters, shape
        self._further = np.zeros(shape[0] * shape[1] // WARP_LANES, np.int64)
        """Words beyond the first of each load, by warp."""

    def load(self, size: int, address: Array, active: Active) -> None:
        """size: bytes of a lane's access; of less than a word, the word is what counts."""
        taking = active.mask.reshape(-1, WARP_LANES).any(axis=1)
        different = np.ones(int(np.count_nonzero(taking)), np.int64)
        if address.size > 1:
            width = np.uint64(max(size, 4).bit_length() - 1)
            rows = np.sort(per_warp(address >> width, active, self._shape), axis=1)
            different += np.count_nonzero(np.diff(rows, axis=1), axis=1)
        self._counters.constant_load_requests += different.size
        self._counters.constant_load_words += int(different.sum())
        self._further[taking] += different - 1

    def finish(self) -> None:
        """Adds the most of any one warp to the counters."""
        most = max(self._counters.critical_path_constant_words, int(self._further.max()))
        self._counters.critical_path_constant_words = most


BANKS = 32
"""Each delivers a word of four bytes at a time."""


def conflicts(rows: Array, parts: int) -> int:
    """Sum over rows of the most different words that any one bank must deliver.

    rows: first word of each lane, int64; a lane takes `parts` words.
    """
    words = (rows[:, :, None] + np.arange(parts)).reshape(rows.shape[0], -1)
    words = np.sort(words, axis=1)
    fresh = np.ones(words.shape, np.bool_)
    fresh[:, 1:] = words[:, 1:] != words[:, :-1]
    row = np.broadcast_to(np.arange(rows.shape[0])[:, None], words.shape)
    key = (row * BANKS + words % BANKS)[fresh]
    counts = np.bincount(key, minlength=rows.shape[0] * BANKS).reshape(-1, BANKS)
    return int(counts.max(axis=1).sum())


_LANES_OF_SECTOR = SECTOR_BYTES // 4
"""Lanes whose words of local memory share a sector."""


@dataclass(frozen=True)
class BlockCost:
    """What one visit of a basic block costs a warp: known without running it."""

    classes: dict[str, int]
    instructions: int
    loads: int
    """Number of global load instructions."""
    slots: int = 0
    """Tenths of a machine instruction."""
    alu: int = 0
    """Tenths of a machine instruction that only the unit for logic and comparisons serves."""
    special: int = 0
    """Tenths of an instruction of the unit for special functions."""
    tensor: int = 0
    """Tenths of a step of the tensor cores."""
    head: bool = False
    """Whether it is the first of a region, whose cycles and rounds stand here."""
    cycles: int = 0
    """Cycles of the longest chain of results."""
    rounds: int = 0
    """Longest chain of global loads that wait for each other."""
    turns: int = 1
    """Turns of a loop that share these rounds."""


@dataclass
class LaunchCounters:
    """Counts of all batches of a launch."""

    counters: Counters = field(default_factory=Counters)
    loaded: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    """Which sectors of a buffer were read, by its address."""
    stored: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    """Which sectors of a buffer were stored to, by its address."""
    atomics: AtomicTurns = field(default_factory=AtomicTurns)
    visits: Visits | None = None

    def finish(self) -> Counters:
        self.counters.load_buffer_sectors = sum(b.size for b in self.loaded.values())
        self.counters.store_buffer_sectors = sum(b.size for b in self.stored.values())
        self.atomics.finish(self.counters)
        self.counters.unique_load_sectors = _marked(self.loaded)
        self.counters.unique_store_sectors = _marked(self.stored)
        return self.counters


def _marked(bitmaps: dict[int, NDArray[np.bool_]]) -> int:
    return sum(int(np.count_nonzero(bitmap)) for bitmap in bitmaps.values())


class BlockCounters:
    """Counts of one batch; `finish` adds them to the launch's."""

    def __init__(
        self,
        launch: LaunchCounters,
        shape: tuple[int, int],
        mixes: list[BlockCost],
        local_bytes: int,
        blocks: NDArray[np.int64],
    ) -> None:
        """blocks: of the grid, linear, in ascending order."""
        self._launch, self._shape, self._local_bytes = launch, shape, local_bytes
        self._local: NDArray[np.bool_] | None = None
        """Words that eight lanes have touched, [eights of lanes, words]; made by the first."""
        self._counters = launch.counters
        warps = shape[0] * shape[1] // WARP_LANES
        self._matches = np.zeros(warps, np.int64)
        self._slept_ns = np.zeros(warps, np.int64)
        self.constants = ConstantLoads(launch.counters, shape)
        self.first_touches = FirstTouchRounds(shape, warps)
        self._mixes, self._blocks = mixes, blocks
        self._visits = np.zeros((len(mixes), warps), np.int32)
        """Visits by basic block and warp."""
        self._rows = list(self._visits)

    def visit(self, block: int, active: Active) -> None:
        mix = self._mixes[block]
        if active.dense:
            warps: Any = slice(None)
            self._rows[block] += 1
        else:
            warps = _warps(active)
            self._rows[block] += warps
        if mix.head:
            self.first_touches.visit(block, warps, mix.rounds, mix.turns)

    def branch(self, active: Active, taken: NDArray[np.bool_]) -> None:
        """Counts the warps that part at a branch."""
        there = taken.reshape(-1, WARP_LANES).any(axis=1)
        elsewhere = (active.mask & ~taken).reshape(-1, WARP_LANES).any(axis=1)
        self._counters.divergent_branches += int(np.count_nonzero(there & elsewhere))

    def barrier(self, active: Active) -> None:
        self._counters.barriers += int(np.count_nonzero(_warps(active)))

    def finish(self) -> None:
        counters = self._counters
        total = self._visits.sum(axis=1, dtype=np.int64).tolist()
        for visits, mix in zip(total, self._mixes, strict=True):
            if visits:
                scaled = {name: count * visits for name, count in mix.classes.items()}
                counters.warp_instructions.update(Counter(scaled))
                counters.issue_tenths += visits * mix.slots
                counters.alu_tenths += visits * mix.alu
                counters.special_tenths += visits * mix.special
                counters.tensor_tenths += visits * mix.tensor
        instructions = self._of_warps([mix.instructions for mix in self._mixes])
        cycles = self._of_warps([mix.cycles for mix in self._mixes])
        loads = self._of_warps([mix.loads for mix in self._mixes])
        counters.critical_path_instructions = max(
            counters.critical_path_instructions, int(instructions.max())
        )
        counters.critical_path_cycles = max(counters.critical_path_cycles, int(cycles.max()))
        counters.critical_path_loads = max(counters.critical_path_loads, int(loads.max()))
        self._keep_visits(total, instructions)
        counters.dependent_load_rounds = max(
            counters.dependent_load_rounds, int(self.first_touches.rounds.max())
        )
        counters.mbarrier_rounds = max(
            counters.mbarrier_rounds, int(self.first_touches.mbarrier_rounds.max())
        )
        counters.copy_cycles = max(counters.copy_cycles, int(self.first_touches.copy_cycles.max()))
        if self._local is not None:
            counters.local_unique_sectors += int(np.count_nonzero(self._local))
        counters.critical_path_match_turns = max(
            counters.critical_path_match_turns, int(self._matches.max())
        )
        self.constants.finish()
        counters.critical_path_sleep_ns = max(
            counters.critical_path_sleep_ns, int(self._slept_ns.max())
        )
        counters.block_load_sectors += self.first_touches.sectors
        counters.block_load_lines += self.first_touches.lines
        counters.late_load_sectors += self.first_touches.late
        counters.fresh_load_rounds = max(counters.fresh_load_rounds, self.first_touches.longest())

    def _of_warps(self, each: list[int]) -> NDArray[np.int64]:
        """Sum over each warp's visits of what one visit of a block costs: int64 [warps]."""
        return np.asarray(np.array(each, np.int64) @ self._visits)

    def _keep_visits(self, total: list[int], instructions: NDArray[np.int64]) -> None:
        warp = int(instructions.argmax())
        block = self._blocks[warp * WARP_LANES // self._shape[1]]
        longest = tuple(self._visits[:, warp].tolist())
        mine = Visits(
            total=tuple(total),
            longest=longest,
            instructions=int(instructions[warp]),
            block=int(block),
        )
        before = self._launch.visits
        self._launch.visits = mine if before is None else before + mine

    def global_access(self, site: Site, address: Array, active: Active) -> None:
        """Requests, sectors and bytes of one instruction."""
        requests, sectors, lines = self._places(address, active)
        counters = self._counters
        bytes_ = site.size * active.count
        if site.writes:
            packets, thirds = packets_of(site, address, active, self._shape)
            counters.store_packets += packets
            counters.store_packet_thirds += thirds
            counters.global_store_requests += requests
            counters.global_store_sectors += sectors
            counters.global_store_lines += lines
            counters.global_store_bytes += bytes_
            self.first_touches.store(address, active)
        else:
            counters.global_load_requests += requests
            counters.global_load_sectors += sectors
            counters.global_load_lines += lines
            counters.global_load_bytes += bytes_
            counters.global_load_wavefronts += self._wavefronts(site, address, active)
            self.first_touches.load(address, active, site.levels)

    def atomic(self, region: BufferRegion, addresses: Array, active: Active, floats: bool) -> None:
        """Counts an atomic operation of the active lanes on a part of memory."""
        warps = np.flatnonzero(active.mask.reshape(-1)) // WARP_LANES
        if region.chosen is not None:
            warps, addresses = warps[region.chosen], addresses[region.chosen]
        self._launch.atomics.add(region.buffer, warps, addresses, floats)

    def _places(self, address: Array, active: Active) -> tuple[int, int, int]:
        """Requests, and the different sectors and lines of each, summed."""
        if address.size == 1:
            warps = int(np.count_nonzero(_warps(active)))
            return warps, warps, warps
        rows = per_warp(address >> SECTOR_SHIFT, active, self._shape)
        steps = np.diff(rows.view(np.int64), axis=1)
        if steps.size and int(steps.min()) < 0:
            rows = np.sort(rows, axis=1)
            steps = np.diff(rows.view(np.int64), axis=1)
        sectors = int(np.count_nonzero(steps))
        lines = int(np.count_nonzero(np.diff(rows >> LINE_SHIFT, axis=1))) if sectors else 0
        return rows.shape[0], rows.shape[0] + sectors, rows.shape[0] + lines

    def touch(self, site: Site, region: BufferRegion, addresses: Array) -> None:
        """Marks the sectors of a buffer."""
        bitmaps = self._launch.stored if site.writes else self._launch.loaded
        buffer = region.buffer
        first = buffer.address // SECTOR_BYTES
        if buffer.address not in bitmaps:
            bitmaps[buffer.address] = np.zeros(_sector_count(buffer), np.bool_)
        mine = addresses if region.chosen is None else addresses[region.chosen]
        sectors = mine >> SECTOR_SHIFT
        if sectors.size > 1:
            new = np.empty(sectors.size, np.bool_)
            new[0] = True
            np.not_equal(sectors[1:], sectors[:-1], out=new[1:])
            sectors = sectors[new]
        bitmaps[buffer.address][(sectors - np.uint64(first)).view(np.int64)] = True

    def span(self, buffer: Buffer, address: int, nbytes: int, lane: int, *, writes: bool) -> Rounds:
        """A bulk copy of one lane, which counts as one request; the rounds of who waits for it."""
        last = address + max(nbytes, 1) - 1
        sectors = slice(address // SECTOR_BYTES, last // SECTOR_BYTES + 1)
        counts = (1, sectors.stop - sectors.start, last // LINE_BYTES - address // LINE_BYTES + 1)
        counters = self._counters
        bitmaps = self._launch.stored if writes else self._launch.loaded
        if buffer.address not in bitmaps:
            bitmaps[buffer.address] = np.zeros(_sector_count(buffer), np.bool_)
        first = buffer.address // SECTOR_BYTES
        rounds = self.first_touches.span(sectors, nbytes, lane // WARP_LANES, reads=not writes)
        bitmaps[buffer.address][sectors.start - first : sectors.stop - first] = True
        if writes:
            counters.global_store_requests += counts[0]
            counters.global_store_sectors += counts[1]
            counters.global_store_lines += counts[2]
            counters.global_store_bytes += nbytes
            packets = int(packets_in(counts[1], counts[2], nbytes))
            counters.store_packets += packets
            counters.store_packet_thirds += 3 * packets
        else:
            counters.global_load_requests += counts[0]
            counters.global_load_sectors += counts[1]
            counters.global_load_lines += counts[2]
            counters.global_load_bytes += nbytes
        return rounds

    def shared_access(self, site: Site, address: Array, active: Active) -> None:
        self._counters.shared_requests += int(np.count_nonzero(_warps(active)))
        self._counters.shared_wavefronts += self._wavefronts(site, address, active)

    def local_access(self, site: Site, address: Array, active: Active) -> None:
        """Words of the lanes of a warp lie side by side: eight lanes share a sector."""
        words = max(site.size // 4, 1)
        octets = active.mask.reshape(-1, _LANES_OF_SECTOR)
        first = np.broadcast_to(address, self._shape).reshape(octets.shape).view(np.int64) // 4
        if self._local is None:
            rows = octets.shape[0]
            self._local = np.zeros((rows, -(-self._local_bytes // 4)), np.bool_)
        row = np.arange(octets.shape[0])[:, None]
        keys = np.unique((row * self._local.shape[1] + first)[octets])
        for word in range(words):
            self._local.reshape(-1)[keys + word] = True
        requests = words * int(np.count_nonzero(_warps(active)))
        counters = self._counters
        if site.writes:
            counters.local_store_requests += requests
            counters.local_store_sectors += keys.size * words
        else:
            counters.local_load_requests += requests
            counters.local_load_sectors += keys.size * words

    def _wavefronts(self, site: Site, address: Array, active: Active) -> int:
        """A warp's access is cut into parts of 128 bytes, of which those that no lane wants are
        none; lanes that want different words of one bank wait for each other."""
        parts = max(site.size // 4, 1)
        taking = _warps(active)
        asked = active.mask.reshape(-1, WARP_LANES)[taking].reshape(-1, WARP_LANES // parts)
        wanted = slice(None) if active.dense else asked.any(axis=1)
        if address.size == 1:
            return int(np.count_nonzero(asked.any(axis=1)))
        words = np.broadcast_to(address, self._shape).view(np.int64) >> 2
        rows = per_warp(words, active, self._shape).reshape(-1, WARP_LANES // parts)[wanted]
        span = rows.max(axis=1) - rows.min(axis=1) + parts
        easy = span <= BANKS
        hard = 0 if easy.all() else conflicts(rows[~easy], parts)
        return int(np.count_nonzero(easy)) + hard

    def turned(self, active: Active, tiles: int) -> None:
        """Tiles of a matrix that are turned over in registers, by the unit of shared memory."""
        self._counters.shared_wavefronts += tiles * int(np.count_nonzero(_warps(active)))

    def match(self, active: Active, turns: NDArray[np.int64]) -> None:
        """turns: of each warp, int64 [warps]; of those without an active lane nothing counts."""
        mine = np.where(_warps(active), turns, 0)
        self._counters.match_turns += int(mine.sum())
        self._matches += mine

    def sleep(self, slept_ns: NDArray[np.int64]) -> None:
        """slept_ns: of each lane, int64 [blocks, threads]; a warp waits for its last."""
        self._slept_ns += slept_ns.reshape(-1, WARP_LANES).max(axis=1)

    def shared_atomic(self, site: Site, address: Array, active: Active) -> None:
        """Turns: one for each lane that wants a bank, whatever its word; more for floats."""
        banks = np.broadcast_to(address, self._shape).reshape(-1).view(np.int64) // 4 % BANKS
        lanes = np.flatnonzero(active.mask.reshape(-1))
        warps = lanes // WARP_LANES
        counts = np.zeros((int(warps.max()) + 1, BANKS), np.int64)
        np.add.at(counts, (warps, banks[lanes]), 1)
        most = counts.max(axis=1)
        self._counters.shared_requests += int(np.count_nonzero(most))
        self._counters.shared_wavefronts += int(most.sum()) * (FLOAT_TRIES if site.floats else 1)


def _warps(active: Active) -> NDArray[np.bool_]:
    return np.asarray(active.mask.reshape(-1, WARP_LANES).any(axis=1))


def _sector_count(buffer: Buffer) -> int:
    last = (buffer.address + max(buffer.nbytes, 1) - 1) // SECTOR_BYTES
    return last - buffer.address // SECTOR_BYTES + 1
