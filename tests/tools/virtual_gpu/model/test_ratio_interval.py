"""The prediction interval of a ratio: by what it grows, and that it lies round the ratio."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from astra_vgpu.model.estimate import Estimate
from astra_vgpu.model.ratio_interval import (
    ALIKE,
    JUDGED_LAUNCH_US,
    SPREAD,
    judged,
    ratio_interval,
    unlikeness,
)

CALL = Estimate(
    us=2.0,
    terms={"dram": 1.0, "latency": 0.5},
    limiter="dram",
    occupancy=1.0,
    waves=1.0,
    why="",
    sampled="",
    store_packets=100.0,
)


def test_unlikeness_counts_time_that_moved_and_stores() -> None:
    assert unlikeness(CALL, CALL) == 0
    moved = replace(CALL, us=4.0, terms={"dram": 3.0, "latency": 0.5})
    assert unlikeness(CALL, moved) == unlikeness(moved, CALL) == pytest.approx(0.5)
    assert unlikeness(CALL, replace(CALL, store_packets=25.0)) == pytest.approx(0.75)
    assert unlikeness(CALL, replace(CALL, store_packets=0.0)) == pytest.approx(1.0)
    silent = replace(CALL, store_packets=0.0)
    assert unlikeness(silent, silent) == 0
    other_units = replace(CALL, terms={"atomics": 0.5})
    assert unlikeness(CALL, other_units) == pytest.approx(1.0)


def test_the_interval_lies_round_the_ratio() -> None:
    low, ratio, high = ratio_interval(CALL, replace(CALL, us=1.0))
    assert ratio == 2.0 and low * high == pytest.approx(4.0) and low < ratio < high
    low, ratio, high = ratio_interval(CALL, CALL)
    assert math.log(high / ratio) == pytest.approx(SPREAD * ALIKE)


def test_each_launch_takes_the_judge_longer() -> None:
    assert judged(CALL, 2, copies_us=1.5).us == pytest.approx(2.0 + 2 * JUDGED_LAUNCH_US + 1.5)
    assert judged(CALL, 0) == CALL
    split = replace(CALL, split={"fixed": 0.5, "bytes": 1.5})
    assert judged(split, 1).split == {"fixed": 0.5 + JUDGED_LAUNCH_US, "bytes": 1.5}
