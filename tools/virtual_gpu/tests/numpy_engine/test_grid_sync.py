"""Cooperative launches: blocks that run at once and wait for each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.numpy_engine.conftest import DATA

from astra_vgpu.types import Fault

BLOCKS, THREADS = 6, 64
THREADS_IN_ALL = BLOCKS * THREADS
BUGS = [
    n
    for n, line in enumerate((DATA / "grid.cu").read_text().splitlines(), 1)
    if line.endswith("// BUG")
]


def fault_of(
    compiled: Any, aligned: Any, kernel: str, *arguments: Any, cooperative: bool = True
) -> Fault:
    out = aligned(np.zeros(THREADS_IN_ALL, np.int32))
    with pytest.raises(Fault) as caught:
        compiled("grid.cu").launch(
            kernel, BLOCKS, THREADS, out, *arguments, cooperative=cooperative
        )
    return caught.value


@pytest.mark.second_tier
def test_blocks_meet_as_often_as_they_like(compiled: Any, aligned: Any) -> None:
    rounds, places = 5, np.arange(THREADS_IN_ALL, dtype=np.int32)
    out, room = (aligned(np.zeros(THREADS_IN_ALL, np.int32)) for _ in range(2))
    report = compiled("grid.cu").launch(
        "neighbours",
        BLOCKS,
        THREADS,
        out,
        room,
        np.int32(out.size),
        np.int32(rounds),
        cooperative=True,
    )
    expected = np.zeros(THREADS_IN_ALL, np.int32)
    for _ in range(rounds):
        here = expected + places
        expected = np.roll(here, -1) + np.roll(here, 1)
    assert np.array_equal(out, expected)
    assert report.counters.atomic_lanes == 2 * rounds * BLOCKS


def test_a_missing_sync_is_a_race_between_blocks(compiled: Any, aligned: Any) -> None:
    room = aligned(np.zeros(THREADS_IN_ALL, np.int32))
    fault = fault_of(
        compiled, aligned, "forgets_second_sync", room, np.int32(THREADS_IN_ALL), np.int32(3)
    )
    assert fault.kind == "race" and "between blocks" in fault.message
    assert f"grid.cu:{BUGS[0]}" in str(fault)


@pytest.mark.parametrize("comes", [False, True])
@pytest.mark.second_tier
def test_who_gives_up_after_a_while_does_not_hang(compiled: Any, aligned: Any, comes: bool) -> None:
    """After a tenth of a second; whoever comes before is seen."""
    out, flag = (aligned(np.zeros(THREADS, np.int32)) for _ in range(2))
    report = compiled("grid.cu").launch(
        "gives_up",
        BLOCKS,
        THREADS,
        out,
        flag,
        np.int32(comes),
        np.int64(200_000_000),
        cooperative=True,
    )
    assert (out == (7 if comes else 0)).all()
    assert comes or report.counters.critical_path_sleep_ns > 90_000_000


@pytest.mark.parametrize("early", [0, 1])
@pytest.mark.parametrize("who", [0, 1])
def test_a_warp_may_spin_until_another_of_its_block_has_stored(
    compiled: Any, aligned: Any, who: int, early: int
) -> None:
    out, flag = (aligned(np.zeros(64, np.int32)) for _ in range(2))
    compiled("grid.cu").launch("spins", 1, 64, out, flag, np.int32(who), np.int32(early))
    assert (out.reshape(2, 32)[who] == 12).all()


def test_a_block_that_never_comes_is_told(compiled: Any, aligned: Any) -> None:
    fault = fault_of(compiled, aligned, "some_leave", np.int32(1))
    assert (fault.kind, fault.cuda_error) == ("timeout", 702)
    assert "not all threads reached the grid's sync" in fault.message
    assert f"grid.cu:{BUGS[1]}" in fault.where and "thread (0, 0, 0)" in fault.where


def test_a_grid_can_not_meet_in_an_ordinary_launch(compiled: Any, aligned: Any) -> None:
    fault = fault_of(compiled, aligned, "some_leave", np.int32(1), cooperative=False)
    assert (fault.kind, fault.cuda_error) == ("trap", 719)


def test_a_block_may_wait_for_a_later_one(compiled: Any, aligned: Any) -> None:
    out, flag = aligned(np.zeros(THREADS_IN_ALL, np.int32)), aligned(np.zeros(1, np.int32))
    compiled("grid.cu").launch("waits_for_last", BLOCKS, THREADS, out, flag, cooperative=True)
    assert np.array_equal(out, np.tile(7 * np.arange(THREADS, dtype=np.int32), BLOCKS))


@pytest.mark.parametrize("cooperative", [True, False])
def test_warps_take_turns_at_a_lock(cooperative: bool, compiled: Any, aligned: Any) -> None:
    lock, total = aligned(np.zeros(1, np.uint32)), aligned(np.zeros(2, np.uint32))
    compiled("grid.cu").launch("takes_turns", BLOCKS, THREADS, lock, total, cooperative=cooperative)
    expected = 0
    for _ in range(BLOCKS * 2):
        expected = 3 * expected + 1
    assert total.tolist() == [expected, 5 * BLOCKS] and lock[0] == 0


def test_a_flag_says_that_what_was_read_may_be_stored_over(compiled: Any, aligned: Any) -> None:
    data, flags = (aligned(np.zeros(THREADS_IN_ALL, np.int32)) for _ in range(2))
    data[:] = np.arange(THREADS_IN_ALL)
    compiled("grid.cu").launch("moves_down", BLOCKS, THREADS, data, flags, np.int32(1))
    assert np.array_equal(data[:-1], np.arange(1, THREADS_IN_ALL))


@pytest.mark.parametrize("tile", [64, 128])
def test_tiles_of_several_warps_meet(tile: int, compiled: Any, aligned: Any) -> None:
    out = aligned(np.zeros(768, np.int32))
    compiled("grid.cu").launch(f"tiles_of_{tile}", 3, 256, out)
    sums = np.arange(768, dtype=np.int32).reshape(-1, tile).sum(axis=1)
    assert np.array_equal(out, np.repeat(3 * sums, tile))
