"""Libraries on top of the engine (CUB, cooperative groups), cp.async, printf, cache policies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from astra_vgpu.types import Fault


@pytest.fixture(scope="module")
def bench(compiled: Any) -> Any:
    return compiled("more.cu")


@pytest.mark.second_tier
def test_cub_block_reduce(bench: Any) -> None:
    x = np.arange(3 * 128, dtype=np.float32).reshape(3, 128)
    out = np.zeros(3, np.float32)
    bench.launch("cub_reduce", 3, 128, out, x)
    assert np.array_equal(out, x.sum(axis=1))


def test_cub_block_scan(bench: Any) -> None:
    x = np.random.default_rng(0).integers(-9, 9, 96).astype(np.int32)
    out = np.zeros(96, np.int32)
    bench.launch("cub_scan", 1, 96, out, x)
    assert np.array_equal(out, np.cumsum(x))


def test_cooperative_groups_reduce(bench: Any) -> None:
    x = np.random.default_rng(0).integers(0, 100, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    bench.launch("group_reduce", 1, 64, out, x)
    warps = x.reshape(2, 32)
    assert np.array_equal(out, (warps.sum(axis=1) * 1000 + warps.max(axis=1)).repeat(32))


def test_a_group_that_is_known_only_at_run_time(bench: Any) -> None:
    """Its sync() has a branch for clusters, which need a GPU, though none is there."""
    out = np.zeros(4, np.int32)
    bench.launch("groups", 1, 128, out, np.int32(0))
    assert list(out) == [127 * 64, 0, 0, 0]
    bench.launch("groups", 1, 128, out, np.int32(1))
    assert list(out) == [32 * 32 * k + 31 * 16 for k in range(4)]


def test_without_clusters_each_block_is_one(bench: Any) -> None:
    out = np.zeros(64, np.int32)
    bench.launch("own_cluster", 1, 64, out, np.int32(1))
    assert np.array_equal(out, np.arange(64)[::-1] + 1)
    with pytest.raises(Fault, match="shared-memory race"):
        bench.launch("own_cluster", 1, 64, out, np.int32(0))


def test_pipelined_copies_arrive_in_order(bench: Any, aligned: Any) -> None:
    x = aligned(np.random.default_rng(0).integers(0, 9, (5, 64, 4)).astype(np.float32))
    out = np.zeros(64, np.float32)
    bench.launch("pipeline", 1, 64, out, x, np.int32(5))
    tiles = x.copy()
    tiles[2, :, 2:] = 0  # The copy of tile 2 reads 8 of 16 bytes.
    expected = np.zeros(64)
    for tile in tiles:
        expected = expected * 2 + tile[::-1].sum(axis=1)
    assert np.array_equal(out, expected)


def test_reading_before_waiting_is_found(bench: Any, aligned: Any) -> None:
    x, out = aligned(np.ones(128, np.float32)), np.zeros(32, np.float32)
    with pytest.raises(Fault, match=r"missing_wait: .*shared offset 0") as caught:
        bench.launch("unwaited", 1, 32, out, x)
    assert "more.cu:" in caught.value.where and "thread (0, 0, 0)" in caught.value.where


def test_waiting_leaves_the_newest_groups_on_their_way(bench: Any) -> None:
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    with pytest.raises(Fault, match=r"missing_wait: .*shared offset 128"):
        bench.launch("waited_for_one", 1, 32, out, x)
    assert not out[32:].any()


@pytest.mark.parametrize(
    ("ahead", "buffers", "last", "early", "words"),
    [
        (1, 2, 1, 0, ""),
        (1, 3, 0, 0, ""),  # the barrier before the read is enough for a third buffer
        (2, 3, 1, 0, ""),
        (2, 4, 0, 0, ""),
        (1, 2, 0, 0, "writes 16 bytes that warp . read since the last barrier"),
        (2, 3, 0, 0, "writes 16 bytes that warp . read since the last barrier"),
        (1, 2, 1, 1, "reads 16 bytes that|cp.async is still writing"),
    ],
)
@pytest.mark.parametrize("equal", [True, False])
def test_copies_into_what_others_still_read_are_races(
    bench: Any,
    aligned: Any,
    equal: bool,
    ahead: int,
    buffers: int,
    last: int,
    early: int,
    words: str,
) -> None:
    """Also where all tiles are equal: until a copy arrives its bytes may be anything."""
    n = 6
    x = aligned(np.full((n, 64, 4), 1, np.float32))
    if not equal:
        x += np.arange(n, dtype=np.float32)[:, None, None]
    out = np.zeros(64, np.float32)
    arguments = (np.int32(value) for value in (n, ahead, buffers, last, early))
    if not words:
        bench.launch("stages", 1, 64, out, x, *arguments)
        assert np.array_equal(
            out, np.full(64, sum(2 ** (n - 1 - k) * x[k, 0].sum() for k in range(n)))
        )
        return
    with pytest.raises(Fault, match=words) as caught:
        bench.launch("stages", 1, 64, out, x, *arguments)
    assert "more.cu:" in caught.value.where


def test_copies_of_one_warp_need_its_lanes_to_meet(bench: Any, aligned: Any) -> None:
    x, out = aligned(np.ones((4, 64), np.float32)), np.zeros(64, np.float32)
    bench.launch("own_warp", 1, 64, out, x, np.int32(4), np.int32(1))
    assert (out == 15).all()
    with pytest.raises(
        Fault, match=r"a lane of warp . writes 4 bytes that another lane of it read"
    ):
        bench.launch("own_warp", 1, 64, out, x, np.int32(4), np.int32(0))


def test_copies_check_bounds_and_alignment(bench: Any, aligned: Any) -> None:
    x, out = aligned(np.ones(129, np.float32)), np.zeros(32, np.float32)
    with pytest.raises(Fault, match="read of 16 bytes"):
        bench.launch("unwaited", 1, 32, out, x[:127])
    with pytest.raises(Fault, match="misaligned"):
        bench.launch("unwaited", 1, 32, out, x[1:])


def test_printf_is_dropped(bench: Any, capfd: Any) -> None:
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    bench.launch("prints", 1, 32, out, x)
    assert np.array_equal(out, x + 1) and capfd.readouterr() == ("", "")


def test_cache_policies_concern_speed_only(bench: Any) -> None:
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    bench.launch("policies", 1, 32, out, x)
    assert np.array_equal(out, 2 * x)
