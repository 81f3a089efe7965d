"""Memory traffic: how many bytes of a launch come from L1, L2 and DRAM, from its counters.

No cache is simulated: a block's sectors count once while they fit in its share of L1, the launch's
once while they fit in L2. Blocks that ran represent those that did not.
"""

from __future__ import annotations

from dataclasses import dataclass

from astra_vgpu.ground.gpu_specs import GpuSpec
from astra_vgpu.types import LINE_BYTES, SECTOR_BYTES, Counters, LaunchReport

L1_LEAST_BYTES = 16 * 1024
WARM_LEAST, WARM_MOST = 0.5, 1.1
"""A footprint of these shares of L2 finds all, or none, of itself there on the next launch."""
L2_STAYS, L2_LOST = 0.5, 1.0
"""Data of these shares of L2 is all found, or all lost, when it is read again in the same order:
each half of the chip keeps its own copy."""


@dataclass(frozen=True, kw_only=True)
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
    room = max(spec.l1_bytes - shared_bytes * resident, L1_LEAST_BYTES)
    at_once = min(blocks, resident * spec.sms)
    read = _sectors_read(report, spec, resident, room)
    stored = _unique(
        c.unique_store_sectors, c.unique_store_sectors, ran, blocks, c.store_buffer_sectors
    )
    footprint = (read.unique + stored) * SECTOR_BYTES
    cold = _cold(footprint, left, spec)
    lost = _lost_by_l2(read, stored, at_once, blocks, spec)
    local = _local(report, spec, resident, room)
    load_density = _density(c)
    # What is read again from far apart arrives in pieces of two sectors.
    pieces = 1 + max(0.0, 1 - 2 * (load_density - 0.25))
    l2_misses = min(read.unique + (lost.own + lost.drawn) * pieces, read.l1_misses * pieces) * cold
    filled = min(1.0, c.global_store_bytes * scale / max(stored * SECTOR_BYTES, 1.0))
    return Traffic(
        loads=c.global_load_sectors * scale,
        l1_misses=read.l1_misses + local.l1_misses,
        l2_misses=l2_misses + local.l2_misses,
        stores=c.global_store_sectors * scale + local.stores,
        store_packets=(c.store_packet_thirds / 3 + 2 * c.local_store_requests) * scale
        + local.stores,
        dram_stores=stored * (2 - filled) * cold + local.dram_stores,
        load_density=load_density,
        footprint=footprint,
        cold=cold,
        new_misses=read.beyond,
        again_misses=read.again_lost * read.beyond / max(read.again, 1.0),
        new_from_dram=min(1.0, (read.unique + lost.drawn) / max(read.new * read.beyond, 1.0))
        * cold,
        again_from_dram=lost.own / max(read.again_lost * read.beyond, 1.0),
        repeated=_repeated(read, at_once),
    )


@dataclass(frozen=True, kw_only=True)
class _Read:
    """Sectors that the whole launch reads, as the blocks want them and as L1 has them."""

    of_block: float
    """Different sectors of one block."""
    common: float
    """Sectors of each block that all blocks read."""
    unique: float
    """Different sectors of all blocks."""
    new: float
    """Reads of sectors that are new to their block."""
    again: float
    """Reads of sectors that their block has read before."""
    again_lost: float
    """Those of `again` that L1 has lost, if blocks share nothing."""
    late_lost: float
    """Those of `again_lost` that come late."""
    l1_misses: float

    @property
    def beyond(self) -> float:
        """Share of what a block does not find in its own part of L1 that L1 does not hold."""
        return self.l1_misses / max(self.new + self.again_lost, 1.0)


def _sectors_read(report: LaunchReport, spec: GpuSpec, resident: int, room: int) -> _Read:
    """What the launch reads, by its counters. `room`: bytes that L1 has for all blocks of an SM."""
    c, ran, blocks = report.counters, report.blocks_run, report.launch.grid.count
    scale = blocks / max(ran, 1)
    fresh = min(c.block_load_sectors or c.unique_load_sectors, c.global_load_sectors)
    new, late = fresh * scale, min(c.late_load_sectors, c.global_load_sectors - fresh) * scale
    soon = max(0.0, c.global_load_sectors * scale - new - late)
    soon_share, late_share = _lost_by_l1(report, resident, room)
    again_lost = soon * soon_share + late * late_share
    unique = _unique(c.unique_load_sectors, fresh, ran, blocks, c.load_buffer_sectors)
    # What all blocks share, those of one SM find in L1 where it holds enough of it.
    common = min(float(c.common_load_sectors), fresh / max(ran, 1))
    held = min(1.0, room / max(common * SECTOR_BYTES, 1.0))
    spared = held * common * max(0, blocks - spec.sms)
    return _Read(
        of_block=fresh / max(ran, 1),
        common=common,
        unique=unique,
        new=new,
        again=soon + late,
        again_lost=again_lost,
        late_lost=late * late_share,
        l1_misses=max(new + again_lost - spared, min(new + again_lost, unique)),
    )


def _repeated(read: _Read, at_once: int) -> float:
    """How many of the blocks that run first want each sector that they want."""
    first = read.of_block * at_once
    return max(1.0, first / max(1.0, min(read.unique, first)))


def _cold(footprint: float, left: float, spec: GpuSpec) -> float:
    """Share of the footprint that L2 does not hold at the start."""
    share = footprint / spec.l2_bytes
    gone = min(1.0, max(0.0, (share - WARM_LEAST) / (WARM_MOST - WARM_LEAST)))
    return 1 - (1 - gone) * min(1.0, left / max(footprint, 1.0))


@dataclass(frozen=True, kw_only=True)
class _LostByL2:
    """Sectors that L2 has lost when they are read again."""

    own: float
    """Sectors read again by the block that has read them before."""
    drawn: float
    """Sectors read again by another block, where blocks draw from one place at random."""


def _lost_by_l2(read: _Read, stored: float, at_once: int, blocks: int, spec: GpuSpec) -> _LostByL2:
    """L2 must hold only what blocks that run at once have read, of what is read again; of what
    blocks draw from one place at random, all of that."""
    footprint = (read.unique + stored) * SECTOR_BYTES
    live = ((read.of_block - read.common) * at_once + read.common) * SECTOR_BYTES
    live = min(footprint, live * (1 + stored / max(read.unique, 1.0)))
    drawn = min((read.of_block - read.common) * blocks, read.new * read.beyond) - read.unique
    return _LostByL2(
        own=read.late_lost * read.beyond * _lost(live, spec),
        drawn=max(0.0, drawn) * _lost_at_random(footprint, spec),
    )


@dataclass(frozen=True, kw_only=True)
class _Local:
    """Sectors of local memory."""

    l1_misses: float
    l2_misses: float
    stores: float
    dram_stores: float


def _local(report: LaunchReport, spec: GpuSpec, resident: int, room: int) -> _Local:
    """What a thread keeps in local memory lies in L1 while that has room for all threads of an SM;
    stores go through to L2, and to DRAM where L2 has no room either."""
    c, blocks = report.counters, report.launch.grid.count
    scale = blocks / max(report.blocks_run, 1)
    of_block = c.local_unique_sectors / max(report.blocks_run, 1) * SECTOR_BYTES
    loads, stores = c.local_load_sectors * scale, c.local_store_sectors * scale
    lost = min(1.0, max(0.0, of_block * resident / room - 1))
    evicted = _lost(of_block * min(blocks, resident * spec.sms), spec)
    return _Local(
        l1_misses=loads * lost,
        l2_misses=loads * lost * evicted,
        stores=stores,
        dram_stores=stores * evicted,
    )


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


def _lost_by_l1(report: LaunchReport, resident: int, room: int) -> tuple[float, float]:
    """Returns the shares of a block's repeated reads that no longer lie in L1: of those that
    follow the one before soon, and of those that come late."""
    c = report.counters
    ran = max(report.blocks_run, 1)
    own = c.block_load_sectors / ran * SECTOR_BYTES
    # Lanes far apart hold a line each.
    at_once = c.global_load_lines / max(c.global_load_requests, 1) * LINE_BYTES
    at_once *= report.launch.block.warps
    soon, late = (min(own, at_once) * resident / room, own * resident / room)
    return min(1.0, max(0.0, soon - 1)), min(1.0, max(0.0, late - 1))


def _density(c: Counters) -> float:
    lines = c.block_load_lines
    return c.block_load_sectors / (lines * LINE_BYTES / SECTOR_BYTES) if lines else 1.0
