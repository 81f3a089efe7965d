"""Which blocks of a large launch run, and one report out of the parts that ran."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields

from astra_chat.tools.virtual_gpu.types import Counters, Launch, LaunchReport

PROBE_BLOCKS = 32
"""Launches of fewer blocks than this always run whole: a sample would save little."""
LONGEST = frozenset(
    {"critical_path_instructions", "critical_path_loads", "dependent_load_rounds"}
)
"""Counters of the one longest warp; the others are sums over blocks."""

Run = Callable[[Sequence[int] | None, bool], LaunchReport]
"""Runs these blocks (linear, x fastest), or all; with counters or without."""


def run_sampled(launch: Launch, run: Run, budget: int | None, counters: bool) -> LaunchReport:
    """Run a launch whole, or blocks of it worth about `budget` instructions of single threads.

    The first block tells what one costs. It is not run twice: a kernel may change its input.
    """
    blocks = launch.grid.count
    if budget is None or blocks < PROBE_BLOCKS:
        return run(None, counters)
    probe = run([0], True)
    affordable = int(budget / max(1, probe.counters.lane_instructions))
    chosen = choose_blocks(blocks, max(PROBE_BLOCKS, affordable))
    return merged(probe, run(chosen[1:], counters))


def choose_blocks(blocks: int, wanted: int) -> list[int]:
    """`wanted` of `blocks` in order: the first, the last, and one at random of each even stretch.

    The same choice every time, so that a failure can be seen again.
    """
    if wanted >= blocks:
        return list(range(blocks))
    inner = max(wanted - 2, 0)
    edges = [1 + i * (blocks - 2) // max(inner, 1) for i in range(inner + 1)]
    generator = random.Random(blocks)
    middle = [generator.randrange(a, b) for a, b in zip(edges, edges[1:], strict=False)]
    return [0, *middle, blocks - 1][: max(wanted, 2)]


def merged(first: LaunchReport, second: LaunchReport) -> LaunchReport:
    """One report of two disjoint sets of blocks of one launch.

    Unique sectors are added: what both sets touched counts twice, an error below one block in
    PROBE_BLOCKS as the first set is one block.
    """
    total = Counters()
    for field in fields(Counters):
        a, b = getattr(first.counters, field.name), getattr(second.counters, field.name)
        if isinstance(a, Counter):
            value: object = a + b
        else:
            value = max(a, b) if field.name in LONGEST else a + b
        setattr(total, field.name, value)
    return LaunchReport(first.launch, first.blocks_run + second.blocks_run, total)
