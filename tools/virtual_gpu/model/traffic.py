"""Memory traffic: how many bytes of a launch come from L1, L2 and DRAM, from its counters.

No cache is simulated: a block's sectors count once while they fit in its share of L1, the launch's
once while they fit in L2. Blocks that ran represent those that did not.
"""

from __future__ import annotations

from dataclasses import dataclass

from astra_chat.tools.gpu_specs import GpuSpec
from astra_chat.tools.virtual_gpu.types import LINE_BYTES, SECTOR_BYTES, Counters, LaunchReport

L1_LEAST_BYTES = 16 * 1024
WARM_LEAST, WARM_MOST = 0.5, 1.1
"""A footprint of these shares of L2 finds all, or none, of itself there on the next launch."""
L2_STAYS, L2_LOST = 0.5, 1.0
"""Data of these shares of L2 is all found, or all lost, when it is read again in the same order:
each half of the chip keeps its own copy."""


@dataclass(frozen=True)
class Traffic:
    """Sectors of the whole launch."""

    loads: float
    """Sectors of loads, over all requests."""
    l1_misses: float
    l2_misses: float
    """Sectors of loads that DRAM serves."""
    stores: float
    store_packets: float
    """Packets that L1 hands to L2 for stores: Counters.store_packets, less what goes along
    together."""
    dram_stores: float
    """Sectors written to DRAM, those that are not filled counted twice: they are read first."""
    load_density: float
    """Sectors of each line that a request fetches, of the four: low where lanes are far apart."""
    footprint: float
    """Bytes of all different sectors."""
    cold: float
    """Share of the footprint that L2 does not hold at the start."""
    new_misses: float
    """Share of a block's new sectors that L1 does not hold: others may have read them."""
    again_misses: float
    """Share of what a block reads again that L1 has lost."""
    new_from_dram: float
    """Share of a block's new sectors beyond L1 that come from DRAM."""
    again_from_dram: float
    """Share of what L1 has lost that L2 has lost too."""
    repeated: float
    """How many of the blocks that run first want each sector that they want."""


def traffic(
    report: LaunchReport, spec: GpuSpec, resident: int, shared_bytes: int, left: float
) -> Traffic:
    """`resident`: blocks that an SM holds; `shared_bytes`: of each, taken from L1; `left`: bytes
    that launches before touched, of which L2 holds what it has room for."""
    c, ran, blocks = report.counters, report.blocks_run, report.launch.grid.count
    scale = blocks / max(ran, 1)
    loads, stores = c.global_load_sectors * scale, c.global_store_sectors * scale
    fresh = min(c.block_load_sectors or c.unique_load_sectors, c.global_load_sectors)
    new, late = fresh * scale, min(c.late_load_sectors, c.global_load_sectors - fresh) * scale
    lost_soon, lost_late = _lost_by_l1(report, spec, resident, shared_bytes)
    soon = max(0.0, loads - new - late)
    again = soon * lost_soon + late * lost_late
    unique = _unique(c.unique_load_sectors, fresh, ran, blocks, c.load_buffer_sectors)
    # What all blocks share, those of one SM find in L1 where it holds enough of it.
    room = max(spec.l1_bytes - shared_bytes * resident, L1_LEAST_BYTES)
    common = min(float(c.common_load_sectors), fresh / max(ran, 1))
    held = min(1.0, room / max(common * SECTOR_BYTES, 1.0))
    spared = held * common * max(0, blocks - spec.sms)
    l1_misses = max(new + again - spared, min(new + again, unique))
    beyond = l1_misses / max(new + again, 1.0)
    stored = _unique(
        c.unique_store_sectors, c.unique_store_sectors, ran, blocks, c.store_buffer_sectors
    )
    footprint = (unique + stored) * SECTOR_BYTES
    load_density = _density(c)
    # Of what is read again, L2 must hold only what blocks that run at once have read; of what
    # blocks draw from one place at random, all of that.
    of_block, at_once = fresh / max(ran, 1), min(blocks, resident * spec.sms)
    first = of_block * at_once
    repeated = max(1.0, first / max(1.0, min(unique, first)))
    live = ((of_block - common) * at_once + common) * SECTOR_BYTES
    live = min(footprint, live * (1 + stored / max(unique, 1.0)))
    lost_own, lost_drawn = _lost(live, spec), _lost_at_random(footprint, spec)
    drawn = max(0.0, min((of_block - common) * blocks, new * beyond) - unique) * lost_drawn
    own = late * lost_late * beyond * lost_own
    # What is read again from far apart arrives in pieces of two sectors.
    pieces = 1 + max(0.0, 1 - 2 * (load_density - 0.25))
    filled = min(1.0, c.global_store_bytes * scale / max(stored * SECTOR_BYTES, 1.0))
    share = footprint / spec.l2_bytes
    gone = min(1.0, max(0.0, (share - WARM_LEAST) / (WARM_MOST - WARM_LEAST)))
    cold = 1 - (1 - gone) * min(1.0, left / max(footprint, 1.0))
    local = _local(report, spec, resident, room)
    l2_misses = min(unique + (own + drawn) * pieces, l1_misses * pieces) * cold
    return Traffic(
        loads,
        l1_misses + local.l1_misses,
        l2_misses + local.l2_misses,
        stores + local.stores,
        (c.store_packet_thirds / 3 + 2 * c.local_store_requests) * scale + local.stores,
        stored * (2 - filled) * cold + local.dram_stores,
        load_density,
        footprint,
        cold,
        beyond,
        again * beyond / max(soon + late, 1.0),
        min(1.0, (unique + drawn) / max(new * beyond, 1.0)) * cold,
        own / max(again * beyond, 1.0),
        repeated,
    )


@dataclass(frozen=True)
class _Local:
    """Sectors of local memory."""

    l1_misses: float
    l2_misses: float
    stores: float
    dram_stores: float


def _local(report: LaunchReport, spec: GpuSpec, resident: int, room: float) -> _Local:
    """What a thread keeps in local memory lies in L1 while that has room for all threads of an SM;
    stores go through to L2, and to DRAM where L2 has no room either."""
    c, blocks = report.counters, report.launch.grid.count
    scale = blocks / max(report.blocks_run, 1)
    of_block = c.local_unique_sectors / max(report.blocks_run, 1) * SECTOR_BYTES
    loads, stores = c.local_load_sectors * scale, c.local_store_sectors * scale
    lost = min(1.0, max(0.0, of_block * resident / room - 1))
    evicted = _lost(of_block * min(blocks, resident * spec.sms), spec)
    return _Local(loads * lost, loads * lost * evicted, stores, stores * evicted)


def _lost(live: float, spec: GpuSpec) -> float:
    """Share of these bytes that L2 no longer holds when they are read again in the same order."""
    share = live / spec.l2_bytes
    return min(1.0, max(0.0, (share - L2_STAYS) / (L2_LOST - L2_STAYS)))


def _lost_at_random(live: float, spec: GpuSpec) -> float:
    return max(0.0, 1 - L2_STAYS * spec.l2_bytes / max(live, 1.0))


def _unique(unique: int, by_block: int, ran: int, blocks: int, most: int) -> float:
    """Different sectors of all blocks: what they share counts once, what is each one's adds up."""
    if ran >= blocks or ran < 2:
        whole = unique * blocks / max(ran, 1)
    else:
        own = max(0.0, (unique - by_block / ran) / (ran - 1))
        whole = unique + own * (blocks - ran)
    return min(whole, most) if most else whole


def _lost_by_l1(
    report: LaunchReport, spec: GpuSpec, resident: int, shared_bytes: int
) -> tuple[float, float]:
    """Returns the share of a block's repeated reads that no longer lie in L1: of those that follow
    the one before soon, and of those that come late."""
    c = report.counters
    ran = max(report.blocks_run, 1)
    own = c.block_load_sectors / ran * SECTOR_BYTES
    # Lanes far apart hold a line each.
    at_once = c.global_load_lines / max(c.global_load_requests, 1) * LINE_BYTES
    at_once *= report.launch.block.warps
    room = max(spec.l1_bytes - shared_bytes * resident, L1_LEAST_BYTES)
    soon, late = (min(own, at_once) * resident / room, own * resident / room)
    return min(1.0, max(0.0, soon - 1)), min(1.0, max(0.0, late - 1))


def _density(c: Counters) -> float:
    lines = c.block_load_lines
    return c.block_load_sectors / (lines * LINE_BYTES / SECTOR_BYTES) if lines else 1.0
