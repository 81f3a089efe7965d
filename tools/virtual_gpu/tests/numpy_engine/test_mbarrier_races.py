"""Which accesses mbarriers order: releases and acquires between warps, barriers, bulk copies."""

from __future__ import annotations

import numpy as np

from astra_vgpu.numpy_engine.frame import Active
from astra_vgpu.numpy_engine.mbarrier_races import COPIES, OrderedRaces


def race_check() -> OrderedRaces:
    """Two blocks of three warps, 64 bytes of shared memory each."""
    return OrderedRaces((2, 96), 128, 4)


def test_a_release_is_seen_by_who_acquires_it() -> None:
    races = race_check()
    clock = races.release(0, 1)
    assert clock[1] == 1 and not races.is_seen(0, 64, 1, 1)
    races.acquire(0, 2, clock)
    assert races.is_seen(0, 64, 1, 1) and not races.is_seen(0, 0, 1, 1)


def test_what_comes_after_a_release_is_not_seen() -> None:
    races = race_check()
    clock = races.release(0, 1)
    races.acquire(0, 2, clock)
    later = int(races.release(0, 1)[1])
    assert later > 1 and not races.is_seen(0, 64, 1, later)


def test_order_is_passed_on() -> None:
    races = race_check()
    races.acquire(0, 1, races.release(0, 0))
    races.acquire(0, 2, races.release(0, 1))
    assert races.is_seen(0, 64, 0, 1)


def test_a_barrier_of_the_block_orders_all_of_it_and_no_other_block() -> None:
    races = race_check()
    races.advance(np.array([True, False]))
    assert races.is_seen(0, 64, 0, 1) and not races.is_seen(1, 64, 0, 1)


def test_a_bulk_copy_is_one_more_warp() -> None:
    races = race_check()
    time = races.copied(0, races.granules(16, 32))
    assert not races.is_seen(0, 0, COPIES, time)
    clock = np.zeros(COPIES + 1, np.int64)
    clock[COPIES] = time
    races.acquire(0, 0, clock)
    assert races.is_seen(0, 0, COPIES, time) and not races.is_seen(0, 32, COPIES, time)


def test_what_a_lane_waited_for_is_seen_by_its_warp_once_that_meets() -> None:
    races = race_check()
    races.acquire(0, 1, races.release(0, 0), lanes=1)
    assert races.is_seen(0, 32, 0, 1) and not races.is_seen(0, 33, 0, 1)
    met = np.zeros((2, 96), np.bool_)
    met[0, 32:40] = True
    races.synced(Active(met, 8))
    assert races.is_seen(0, 33, 0, 1) and not races.is_seen(0, 64, 0, 1)


def test_lanes_that_wait_one_by_one_are_their_warp() -> None:
    races = race_check()
    clock = races.release(0, 0)
    races.acquire(0, 1, clock, lanes=0b011, live=0b111)
    assert not races.is_seen(0, 34, 0, 1)
    races.acquire(0, 1, clock, lanes=0b100, live=0b111)
    assert races.is_seen(0, 32, 0, 1) and races.is_seen(0, 40, 0, 1)


def test_one_lane_passes_on_only_what_it_waited_for() -> None:
    races = race_check()
    races.acquire(0, 1, races.release(0, 0), lanes=1)
    assert races.release(0, 1, lanes=2)[0] == 0 and races.release(0, 1, lanes=1)[0] == 1


def test_a_lane_that_passes_alone_has_met_who_may_have_arrived() -> None:
    races = race_check()
    live, passed = np.ones((2, 96), np.bool_), np.zeros((2, 96), np.bool_)
    passed[0, 0] = passed[0, 64] = passed[1, :32] = True
    races.release(0, 2, lanes=0b110)
    races.release(0, 0, lanes=1)
    met = [[False, False, True], [True, False, False]]
    assert races.counts_as_met(live, passed).tolist() == met
