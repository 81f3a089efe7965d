"""Blocks of samples are added until the interval is narrow, whatever it says: of a kernel beside
itself that finds no more differences than a fixed number of blocks does. To stop once the interval
leaves out 1 would."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from astra_chat.tools.run.protocol import Block, ClockReading
from astra_chat.tools.runners.cuda_timing import MAX_BLOCKS, MIN_BLOCKS, _known
from astra_chat.tools.timing.gpu_samples import interval, log_ratios

CLOCK = ClockReading(
    sm_clock_mhz=1980,
    memory_clock_mhz=2619,
    temperature_c=40,
    power_w=300,
    throttle_reasons=0,
    throttled=False,
)
TIMES = 300
"""Measurements of each kind."""
MOST_FALSE = 0.10
"""The share of 95 % intervals, of a median of few blocks, that may leave out the truth."""
Stop = Callable[[Sequence[Block]], bool]


def block(rng: random.Random, noise: float) -> Block:
    """A kernel beside itself; `noise` is the standard deviation of the logarithm of a replay."""
    pairs = [tuple(2 * math.exp(rng.gauss(0, noise)) for _ in range(2)) for _ in range(3)]
    return Block(
        candidate_first=rng.random() < 0.5,
        baseline=(pairs[0][0], pairs[0][1]),
        candidate=(pairs[1][0], pairs[1][1]),
        control=(pairs[2][0], pairs[2][1]),
        spent_s=0.0,
        clock=CLOCK,
    )


def differs(blocks: Sequence[Block]) -> bool:
    low, _, high = interval(log_ratios(blocks))
    return low > 0 or high < 0


def false_share(noise: float, stop: Stop) -> float:
    """Share of measurements of a kernel beside itself whose interval leaves out 1."""
    rng, found = random.Random(f"{noise}"), 0
    for _ in range(TIMES):
        blocks = [block(rng, noise) for _ in range(MIN_BLOCKS)]
        while len(blocks) < MAX_BLOCKS and not stop(blocks):
            blocks.append(block(rng, noise))
        found += differs(blocks)
    return found / TIMES


@pytest.mark.second_tier
@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_to_stop_by_width_adds_no_false_differences(noise: float) -> None:
    by_width = false_share(noise, _known)
    fixed = max(false_share(noise, lambda _: True), false_share(noise, lambda _: False))
    chance = 2 * math.sqrt(MOST_FALSE * (1 - MOST_FALSE) / TIMES)
    assert by_width <= max(fixed, MOST_FALSE) + chance


@pytest.mark.second_tier
def test_to_stop_by_what_the_interval_says_would() -> None:
    assert false_share(0.03, differs) > 2 * MOST_FALSE
