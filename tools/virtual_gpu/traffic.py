"""How many bytes of a launch come from L1, from L2 and from DRAM, by its counters.

No cache is simulated: a block's sectors count once while they fit in its share of L1, the launch's
once while they fit in L2. Blocks that ran stand for those that did not.
"""

from __future__ import annotations

from dataclasses import dataclass

from astra_chat.tools.virtual_gpu.specs import GpuSpec
from astra_chat.tools.virtual_gpu.types import LINE_BYTES, SECTOR_BYTES, LaunchReport

L1_LEAST_BYTES = 16 * 1024
WARM_LEAST, WARM_MOST = 0.5, 1.1
"""A footprint of these shares of L2 finds all, or none, of itself there on the next launch."""
L2_STAYS = 0.5
"""Share of L2 that a footprint which is read at random finds itself in: each half of the chip keeps
its own copy."""


@dataclass(frozen=True)
class Traffic:
    """Sectors of the whole launch."""

    loads: float
    """Over all requests."""
    l1_misses: float
    l2_misses: float
    """Loads that DRAM serves."""
    stores: float
    store_lines: float
    """Of 128 bytes, over all requests."""
    dram_stores: float
    """Written to DRAM, a sector that is not filled counted twice: it is read first."""
    load_density: float
    """Sectors of each line that a request touches, of the four: low where lanes are far apart."""
    store_density: float

    @property
    def dram_share(self) -> float:
        """Of L1 misses, those that wait for DRAM."""
        return min(1.0, self.l2_misses / max(self.l1_misses, 1.0))


def traffic(
    report: LaunchReport, spec: GpuSpec, resident: int, shared_bytes: int, warm: bool
) -> Traffic:
    """`resident`: blocks that an SM holds; `shared_bytes`: of each, which L1 lacks."""
    c, ran, blocks = report.counters, report.blocks_run, report.launch.grid.count
    scale = blocks / max(ran, 1)
    loads, stores = c.global_load_sectors * scale, c.global_store_sectors * scale
    fresh = min(c.block_load_sectors or c.unique_load_sectors, c.global_load_sectors)
    kept = _kept_by_l1(report, spec, resident, shared_bytes)
    own_again = (loads - fresh * scale) * (1 - kept)
    l1_misses = fresh * scale + own_again
    unique = _unique(c.unique_load_sectors, fresh, ran, blocks, c.load_buffer_sectors)
    # What blocks share, those of one SM find in L1 where it holds enough of it.
    room = max(spec.l1_bytes - shared_bytes * resident, L1_LEAST_BYTES)
    shared = min(1.0, room / max(unique * SECTOR_BYTES, 1.0))
    floor = min(l1_misses, unique * min(spec.sms, blocks))
    l1_misses = floor + (l1_misses - floor) * (1 - shared)
    stored = _unique(
        c.unique_store_sectors, c.unique_store_sectors, ran, blocks, c.store_buffer_sectors
    )
    footprint = (unique + stored) * SECTOR_BYTES
    load_density = _density(c.global_load_sectors, c.global_load_lines)
    again = max(0.0, l1_misses - unique)
    own_again = min(own_again, again)
    # Of what a block reads again, L2 must hold only what blocks that run at once have read.
    at_once = fresh / max(ran, 1) * SECTOR_BYTES * resident * min(spec.sms, blocks)
    lost_own = _lost(min(footprint, at_once * (1 + stored / max(unique, 1.0))), spec)
    lost_shared = _lost(footprint, spec)
    store_density = _density(c.global_store_sectors, c.global_store_lines)
    # What is read again from far apart arrives in pieces of two sectors.
    pieces = 1 + max(0.0, 1 - 2 * (load_density - 0.25))
    l2_misses = unique + (own_again * lost_own + (again - own_again) * lost_shared) * pieces
    filled = min(1.0, c.global_store_bytes * scale / max(stored * SECTOR_BYTES, 1.0))
    cold = 1.0
    if warm:
        share = footprint / spec.l2_bytes
        cold = min(1.0, max(0.0, (share - WARM_LEAST) / (WARM_MOST - WARM_LEAST)))
    return Traffic(
        loads, l1_misses, min(l2_misses, l1_misses * pieces) * cold, stores,
        c.global_store_lines * scale, stored * (2 - filled) * cold, load_density, store_density,
    )  # fmt: skip


def _lost(live: float, spec: GpuSpec) -> float:
    """Share of these bytes that L2 no longer holds when they are read again."""
    return max(0.0, 1 - L2_STAYS * spec.l2_bytes / max(live, 1.0))


def _unique(unique: int, by_block: int, ran: int, blocks: int, most: int) -> float:
    """Different sectors of all blocks: what they share counts once, what is each one's adds up."""
    if ran >= blocks or ran < 2:
        whole = unique * blocks / max(ran, 1)
    else:
        own = max(0.0, (unique - by_block / ran) / (ran - 1))
        whole = unique + own * (blocks - ran)
    return min(whole, most) if most else whole


def _kept_by_l1(report: LaunchReport, spec: GpuSpec, resident: int, shared_bytes: int) -> float:
    """Share of a block's repeated reads that still lie in L1."""
    c = report.counters
    ran = max(report.blocks_run, 1)
    own = c.block_load_sectors / ran * SECTOR_BYTES
    warps = -(-report.launch.block.count // 32)
    # Lanes far apart hold a line each, and come back for the rest of it at once; neighbours come
    # back to what they read when they are through with all of it.
    at_once = c.global_load_lines / max(c.global_load_requests, 1) * LINE_BYTES * warps
    use = _use(c.global_load_bytes, c.global_load_sectors)
    live = (use * own + (1 - use) * min(own, at_once)) * resident
    room = max(spec.l1_bytes - shared_bytes * resident, L1_LEAST_BYTES)
    return min(1.0, max(0.0, 2 - live / room))


def _density(sectors: int, lines: int) -> float:
    return sectors / (lines * LINE_BYTES / SECTOR_BYTES) if lines else 1.0


def _use(asked: int, sectors: int) -> float:
    return min(1.0, asked / (sectors * SECTOR_BYTES)) if sectors else 1.0
