"""mbarrier and bulk copies: the toolkit's classes and primitives, PTX of its own, and misuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from astra_vgpu.numpy_engine.first_touch import COPY_BYTES, COPY_CYCLES
from astra_vgpu.types import Fault


@pytest.fixture(scope="module")
def bench(compiled: Any) -> Any:
    return compiled("mbarriers.cu")


@pytest.fixture
def tiles(aligned: Any) -> Any:
    """float32 [6, 128] of small integers: any order of additions is exact."""
    return aligned(np.random.default_rng(0).integers(0, 9, (6, 128)).astype(np.float32))


@pytest.mark.second_tier
def test_a_barrier_orders_every_round(bench: Any, tiles: Any) -> None:
    out = np.zeros((2, 128), np.float32)
    report = bench.launch("barrier_sum", 2, 128, out, tiles, np.int32(3))
    assert np.array_equal(out, tiles.reshape(2, 3, 128)[:, :, ::-1].sum(axis=1))
    assert report.counters.barriers == 2 * 4 * (1 + 2 * 3)


def test_threads_that_drop_out_are_awaited_no_more(bench: Any, tiles: Any) -> None:
    out = np.zeros(128, np.float32)
    bench.launch("dropped", 1, 128, out, tiles, np.int32(0))
    assert (out[:64] == 1).all() and not out[64:].any()


def test_a_bounded_wait_ends(bench: Any, tiles: Any) -> None:
    out = np.zeros(128, np.float32)
    bench.launch("gives_up", 1, 128, out, tiles, np.int32(0))
    assert (out == 7).all()


def test_a_block_copies_by_memcpy_async(bench: Any, aligned: Any) -> None:
    x = aligned(np.arange(3 * 512, dtype=np.float32).reshape(3, 512))
    out = np.zeros(512, np.float32)
    report = bench.launch("copied_by_block", 1, 128, out, x, np.int32(3))
    assert np.array_equal(out, x[:, ::-1].sum(axis=0))
    assert report.counters.unique_load_sectors >= 3 * 64


def test_a_pipeline_of_the_block(bench: Any, tiles: Any) -> None:
    out = np.zeros(128, np.float32)
    bench.launch("block_pipeline", 1, 128, out, tiles, np.int32(6))
    assert np.array_equal(out, tiles[:, ::-1].sum(axis=0))


def test_a_pipeline_of_producers_and_consumers(bench: Any, tiles: Any) -> None:
    out = np.zeros(128, np.float32)
    bench.launch("roles", 1, 128, out, tiles, np.int32(6))
    assert np.array_equal(out[32:], tiles[:, np.arange(32, 128) * 7 % 128].sum(axis=0))


def test_primitives(bench: Any, tiles: Any) -> None:
    out = np.zeros(256, np.float32)
    bench.launch("primitives", 1, 128, out, tiles, np.int32(0))
    assert np.array_equal(out[:128], tiles[0, ::-1] + (np.arange(128) != 1))
    assert np.array_equal(out[128:], 128 - np.arange(128))


def test_bulk_copies_there_and_back_are_counted(bench: Any, aligned: Any) -> None:
    x, out = aligned(np.arange(1024, dtype=np.float32)), aligned(np.zeros(1024, np.float32))
    counters = bench.launch("there_and_back", 2, 64, out, x, np.int32(0)).counters
    assert np.array_equal(out, x + 1)
    assert counters.global_load_bytes == counters.global_store_bytes == 2 * 2048
    assert counters.global_load_sectors == counters.unique_load_sectors == 2 * 64
    assert counters.block_load_sectors == 2 * 64 and counters.global_load_requests == 2
    assert counters.global_store_lines == 2 * 16 and counters.unique_store_sectors == 2 * 64
    rounds = counters.dependent_load_rounds, counters.fresh_load_rounds, counters.mbarrier_rounds
    assert rounds == (1, 1, 1)
    assert counters.copy_cycles == COPY_CYCLES + 2048 // COPY_BYTES


def test_warps_of_two_kinds(bench: Any, aligned: Any) -> None:
    x = aligned(np.random.default_rng(0).integers(0, 9, (5, 256)).astype(np.float32))
    out = np.zeros(128, np.float32)
    counters = bench.launch("specialised", 1, 128, out, x, np.int32(5)).counters
    sums = [x[:, k::96].sum() for k in range(96)]
    assert not out[:32].any() and np.array_equal(out[32:], np.array(sums, np.float32))
    assert counters.dependent_load_rounds == counters.mbarrier_rounds == 3, (
        "two tiles are in flight at a time"
    )


def test_bulk_reductions(bench: Any, aligned: Any) -> None:
    x = aligned(np.arange(32, dtype=np.float32))
    out = aligned(np.ones(128, np.float32))
    out[32:].view(np.int32)[:] = np.arange(96)
    before = out.view(np.int32).copy()
    bench.launch("reductions", 1, 32, out, x, np.int32(0))
    counts = np.arange(32, dtype=np.int32) - 16
    after = out.view(np.int32)
    assert np.array_equal(out[:32], x + 1)
    assert np.array_equal(after[32:64], np.minimum(before[32:64], counts))
    largest = np.maximum(before[64:96].view(np.uint32), counts.view(np.uint32))
    assert np.array_equal(after[64:96].view(np.uint32), largest)
    assert np.array_equal(after[96:], before[96:] ^ counts)


def test_copies_arrive_at_mbarriers(bench: Any, tiles: Any) -> None:
    out = np.zeros(128, np.float32)
    bench.launch("noinc", 1, 128, out, tiles, np.int32(0))
    assert np.array_equal(out, tiles[0, ::-1] + 2 * tiles[1, ::-1])


def test_the_rest_of_a_warp_waits_for_its_elected_lane(bench: Any, tiles: Any) -> None:
    out = np.zeros(128, np.float32)
    bench.launch("elected", 1, 128, out, tiles, np.int32(6))
    assert np.array_equal(out, tiles[:, ::-1].sum(axis=0))


def test_lanes_of_a_warp_may_wait_for_each_other(bench: Any, tiles: Any) -> None:
    out, ball = np.zeros(32, np.float32), float(tiles[0, 0])
    bench.launch("split_warp", 1, 32, out, tiles, np.int32(4))
    for throw in range(8):
        ball = ball * 2 + (throw % 2 == 0)
    assert (out == ball).all()


@pytest.mark.parametrize(
    ("how", "kind", "error", "words"),
    [
        (0, "mbarrier", 719, "not initialized"),
        (1, "mbarrier", 719, "count outside"),
        (2, "mbarrier", 719, "more arrivals"),
        (3, "mbarrier", 719, "would complete"),
        (4, "mbarrier", 719, "1,048,575 transaction bytes"),
        (5, "mbarrier", 719, "invalidated"),
        (6, "misaligned", 716, "of 8 bytes"),
        (7, "race", 719, "may not be initialized yet"),
        (8, "misaligned", 716, "write of 256 bytes"),
        (9, "misaligned", 716, "read of 256 bytes"),
        (10, "misaligned", 716, "24 bytes, not a multiple of 16"),
        (11, "out_of_bounds", 700, "write of 256 bytes at shared offset"),
        (12, "out_of_bounds", 700, "read of 256 bytes at address"),
        (13, "misaligned", 716, "of 8 bytes"),
        (14, "missing_wait", 719, "still reads"),
        (15, "missing_wait", 719, "still reads"),
        (16, "missing_wait", 719, "block ends while a bulk copy"),
        (17, "race", 719, "may not be initialized yet"),
        (18, "mbarrier", 719, "not initialized"),
    ],
)
def test_misuse(bench: Any, aligned: Any, how: int, kind: str, error: int, words: str) -> None:
    x, out = aligned(np.zeros(64, np.float32)), aligned(np.zeros(64, np.float32))
    with pytest.raises(Fault, match=words) as caught:
        bench.launch("misuse", 1, 64, out, x, np.int32(how))
    assert (caught.value.kind, caught.value.cuda_error) == (kind, error)
    assert "mbarriers.cu:" in caught.value.where and "thread (" in caught.value.where


def test_who_arrives_at_a_named_barrier_goes_on(bench: Any) -> None:
    given, out = np.arange(5 * 32, dtype=np.int32), np.zeros(5 * 32, np.int32)
    bench.launch("named_barriers", 1, 64, given, out, np.int32(5))
    assert np.array_equal(out, 2 * given.reshape(5, 32)[:, ::-1].reshape(-1))
