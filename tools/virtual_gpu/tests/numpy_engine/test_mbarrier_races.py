"""Which accesses mbarriers order: releases and acquires between warps, barriers, bulk copies."""

from __future__ import annotations

import numpy as np

from astra_vgpu.numpy_engine.mbarrier_races import COPIES, OrderedRaces


def race_check() -> OrderedRaces:
    """Two blocks of three warps, 64 bytes of shared memory each."""
    return OrderedRaces((2, 96), 128, 4)


def test_a_release_is_seen_by_who_acquires_it() -> None:
    races = race_check()
    clock = races.release(0, 1)
    assert clock[1] == 1 and not races.is_seen(0, 2, 1, 1)
    races.acquire(0, 2, clock)
    assert races.is_seen(0, 2, 1, 1) and not races.is_seen(0, 0, 1, 1)


def test_what_comes_after_a_release_is_not_seen() -> None:
    races = race_check()
    clock = races.release(0, 1)
    races.acquire(0, 2, clock)
    later = int(races.release(0, 1)[1])
    assert later > 1 and not races.is_seen(0, 2, 1, later)


def test_order_is_passed_on() -> None:
    races = race_check()
    races.acquire(0, 1, races.release(0, 0))
    races.acquire(0, 2, races.release(0, 1))
    assert races.is_seen(0, 2, 0, 1)


def test_a_barrier_of_the_block_orders_all_of_it_and_no_other_block() -> None:
    races = race_check()
    races.advance(np.array([True, False]))
    assert races.is_seen(0, 2, 0, 1) and not races.is_seen(1, 2, 0, 1)


def test_a_bulk_copy_is_one_more_warp() -> None:
    races = race_check()
    time = races.copied(0, races.granules(16, 32))
    assert not races.is_seen(0, 0, COPIES, time)
    clock = np.zeros(COPIES + 1, np.int64)
    clock[COPIES] = time
    races.acquire(0, 0, clock)
    assert races.is_seen(0, 0, COPIES, time) and not races.is_seen(0, 1, COPIES, time)
