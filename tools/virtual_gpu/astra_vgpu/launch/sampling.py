"""Sampling of blocks: which blocks of a large launch run, and one report from several parts."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial

import numpy as np

from astra_vgpu.memory.uninitialized_reads import first_of_each
from astra_vgpu.types import Counters, Launch, LaunchReport, Visits

PROBE_LANES = 16384
"""Threads of the first part: as many as an engine runs at once, so they cost little more than one
block."""
PROBE_BLOCKS = 32
"""The first part has at least so many blocks."""
LONGEST = frozenset(
    {
        "critical_path_instructions",
        "critical_path_cycles",
        "critical_path_loads",
        "copy_cycles",
        "mbarrier_rounds",
        "critical_path_match_turns",
        "critical_path_sleep_ns",
        "critical_path_constant_words",
        "dependent_load_rounds",
        "fresh_load_rounds",
        "load_buffer_sectors",
        "store_buffer_sectors",
    }
)
"""Counters of the one longest warp, and of buffers; the others are sums over blocks."""
OF_ONE_PATH = frozenset(
    {
        "critical_path_before_load",
        "critical_path_units",
        "critical_path_lines",
        "critical_path_load_lines",
    }
)
"""What the longest chain of results is made of."""

Run = Callable[[Sequence[int] | None, bool], LaunchReport]
"""Runs these blocks (linear, x fastest), or all; with counters or without."""


Then = Callable[[int], tuple[Run, int | None]]
"""Given the instructions of the whole launch: what runs the rest, and its budget."""


def run_sampled(
    launch: Launch,
    run: Run,
    budget: int | None,
    counters: bool,
    then: Then | None = None,
    *,
    in_order: bool = False,
    only: Sequence[int] | None = None,
    seed: int = 0,
) -> LaunchReport:
    """Run a launch whole, or blocks of it worth about `budget` instructions of single threads.

    A first part, spread over the grid, tells what a block costs. No block is run twice: a kernel
    may change its input. in_order: blocks wait for earlier ones, as a run of some has shown
    (waiting_blocks.py), so the sample is the first ones.
    only: run these blocks, whatever they cost. seed: see choose_blocks.
    """
    choose = _first_blocks if in_order else partial(choose_blocks, seed=seed)
    blocks = range(launch.grid.count) if only is None else only
    first = first_part(launch)
    if len(blocks) <= first or (budget is None and then is None):
        return dataclasses.replace(_told(report := run(only, counters), report), ran=only)
    places = choose(len(blocks), first)
    probed = [blocks[i] for i in places]
    probe = run(probed, counters)
    cost = max(1, probe.counters.lane_instructions)
    if then is not None:
        run, budget = then(cost * len(blocks) // first)
    affordable = len(blocks)
    if budget is not None and only is None:
        affordable = budget * first // cost
    if affordable <= first:
        return dataclasses.replace(_told(probe, probe), ran=probed)
    before = [place - i for i, place in enumerate(places)]
    """Number of blocks outside the first part that come before each of its places."""
    others = np.asarray(choose(len(blocks) - first, affordable - first))
    at = others + np.searchsorted(before, others, side="right")
    rest = sorted(np.asarray(blocks)[at].tolist())
    report = _told(merged(probe, run(rest, counters)), probe)
    return dataclasses.replace(report, ran=sorted([*probed, *rest]) if report.sampled else None)


def first_part(launch: Launch) -> int:
    """How many blocks the first part of a launch has."""
    return max(PROBE_BLOCKS, PROBE_LANES // max(launch.block.count, 1))


def choose_blocks(blocks: int, wanted: int, seed: int = 0) -> list[int]:
    """`wanted` of `blocks` in order: the first, the last, and one at random of each even stretch.

    The same choice with the same seed. Who runs what wants to look good draws one, else it knows
    which of its blocks are looked at.
    """
    if wanted >= blocks:
        return list(range(blocks))
    if wanted < 3:
        return [0, blocks - 1][:wanted]
    inner = wanted - 2
    edges = [1 + i * (blocks - 2) // inner for i in range(inner + 1)]
    generator = random.Random(blocks + (seed << 64))
    return [0, *(generator.randrange(a, b) for a, b in itertools.pairwise(edges)), blocks - 1]


def _first_blocks(blocks: int, wanted: int) -> list[int]:
    return list(range(min(blocks, wanted)))


def merged(first: LaunchReport, second: LaunchReport) -> LaunchReport:
    """One report of two disjoint sets of blocks of one launch.

    Unique sectors are added, less what blocks of one set share: the other's share it too.
    """
    total = Counters()
    longer = max(first.counters, second.counters, key=lambda c: c.critical_path_cycles)
    for field in fields(Counters):
        a, b = getattr(first.counters, field.name), getattr(second.counters, field.name)
        if field.name in OF_ONE_PATH:
            value: object = getattr(longer, field.name)
        elif isinstance(a, Counter):
            value = a + b
        else:
            value = max(a, b) if field.name in LONGEST else a + b
        setattr(total, field.name, value)
    total.unique_load_sectors -= min(first.counters.unique_load_sectors, _shared(second))
    return LaunchReport(
        first.launch,
        first.blocks_run + second.blocks_run,
        total,
        first.prints + second.prints,
        uninitialized=first_of_each(first.uninitialized + second.uninitialized),
        visits=_added(first, second),
    )


def _added(first: LaunchReport, second: LaunchReport) -> Visits | None:
    if first.visits is None or second.visits is None:
        return first.visits or second.visits
    return first.visits + second.visits


def _told(report: LaunchReport, first: LaunchReport) -> LaunchReport:
    """The report, with what all blocks read: few, far apart, meet only there."""
    report.counters.common_load_sectors = _shared(first)
    return report


def _shared(report: LaunchReport) -> int:
    """Sectors that every block reads, about: of those read, what is not a block's own."""
    c, blocks = report.counters, report.blocks_run
    if blocks < 2:
        return 0
    own = max(0.0, (c.unique_load_sectors - c.block_load_sectors / blocks) / (blocks - 1))
    return max(0, round(c.unique_load_sectors - own * blocks))
