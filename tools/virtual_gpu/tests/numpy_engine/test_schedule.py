"""Control flow, warps, barriers, memory spaces and atomics, against Python and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from astra_vgpu.memory.buffers import Memory
from astra_vgpu.types import Dim3

Array = NDArray[Any]


@pytest.fixture(scope="module")
def bench(compiled: Any) -> Any:
    return compiled("machine.cu")


@pytest.mark.parametrize("threads", [32, 64, 512])
def test_tree_reduction(bench: Any, rng: np.random.Generator, threads: int) -> None:
    x = rng.integers(-50, 50, (9, 1000)).astype(np.float32)
    out = np.zeros(9, np.float32)
    bench.launch("tree_sum", 9, threads, out, x, np.int32(1000), shared=4 * threads)
    assert np.array_equal(out, x.sum(axis=1))


@pytest.mark.parametrize("threads", [32, 128, 1024])
def test_rmsnorm(bench: Any, threads: int) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(5, 777, generator=generator).bfloat16()
    w = torch.randn(777, generator=generator).bfloat16()
    out = np.zeros((5, 777), np.int16)
    raw, weight = x.view(torch.int16).numpy(), w.view(torch.int16).numpy()
    bench.launch("rmsnorm", 5, threads, out, raw, weight, np.int32(777), 1e-6)
    wide = x.double()
    expected = wide * torch.rsqrt((wide * wide).mean(dim=1, keepdim=True) + 1e-6) * w.double()
    got = torch.from_numpy(out).view(torch.bfloat16).double()
    assert torch.allclose(got, expected, rtol=2**-8, atol=1e-6)


def test_warp_functions(bench: Any, rng: np.random.Generator) -> None:
    v = rng.integers(0, 40, 128).astype(np.int32)
    out = np.zeros((128, 16), np.uint32)
    bench.launch("warp_functions", 2, 64, out, v)
    for first in range(0, 128, 32):
        warp = [int(x) for x in v[first : first + 32]]
        for lane in range(32):
            assert list(out[first + lane]) == expected_row(warp, lane), lane


def expected_row(warp: list[int], lane: int) -> list[int]:
    """What warp_functions writes for one lane, from the CUDA guide's words."""
    mine = warp[lane]
    segment = lane - lane % 8
    xor = (lane ^ 7) if (lane ^ 7) < segment + 8 else lane
    up = lane - 2 if lane % 16 >= 2 else lane
    ballot = sum(1 << k for k, x in enumerate(warp) if x & 1)
    match = sum(1 << k for k, x in enumerate(warp) if x & 7 == mine & 7)
    total = 0
    for x in warp:
        total ^= x
    row = [
        warp[lane - 3] if lane >= 3 else mine,
        warp[lane + 5] if lane + 5 < 32 else mine,
        warp[mine & 31],
        warp[xor],
        warp[up],
        ballot,
        2 * (3 in warp) + 1,
        match,
        0xFFFFFFFF,
        1,
        sum(warp),
        max(warp),
        total,
    ]
    return [*row, *((0xFFFFF, min(warp[:20]), warp[19]) if lane < 20 else (0, 0, 0))]


def test_local_arrays_constants_and_variables(bench: Any, rng: np.random.Generator) -> None:
    v = rng.integers(0, 16, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    bench.launch("local_array", 1, 64, out, v, np.int32(9))
    offsets, expected = [3, 1, 4, 1, 5, 9, 2, 6], []
    for thread, start in enumerate(int(x) for x in v):
        stack = [k * offsets[k & 7] for k in range(16)]
        for k in range(9):
            stack[(start + k) & 15] += k
        total = 0
        for k in range(16):
            total = total * 3 + stack[(k + start) & 15]
        expected.append((total + 5 + [0, 1, 2, 3][thread & 3]) & 0xFFFFFFFF)
    assert np.array_equal(out.view(np.uint32), np.array(expected, np.uint32))


def test_structures_by_value_and_returned(bench: Any) -> None:
    layout = np.dtype(
        {
            "names": ["a", "b", "c", "d"],
            "formats": ["i4", "f8", "5i1", "i2"],
            "offsets": [0, 8, 16, 22],
            "itemsize": 24,
        }
    )
    value = np.zeros(1, layout)
    value["b"], value["c"], value["d"] = 10.25, [1, 2, 30, 4, 5], -7
    out = np.zeros(64)
    bench.launch("structures", 1, 64, out, value.tobytes(), np.int32(2))
    i = np.arange(64)
    assert np.array_equal(out, i + 0.5 * i + i - i + 10.25 + 30 - 7)


def test_bytes_extend_by_the_type_of_the_load(bench: Any) -> None:
    v = np.arange(-100, 28, dtype=np.int8)
    out = np.zeros(128, np.uint8)
    bench.launch("bytes", 1, 128, out, v, np.int32(128))
    wide = v.astype(np.int32)
    assert np.array_equal(out, np.where(wide < 0, -wide * 2, wide + 1).astype(np.uint8))


def test_generic_pointers_to_several_spaces(bench: Any) -> None:
    v = np.arange(128, dtype=np.int32)
    out = np.zeros(128, np.int32)
    bench.launch("mixed", 1, 128, out, v)
    i = np.arange(128)
    assert np.array_equal(out, np.where(i & 1, (127 - i) * 10, i) + 1000)


def test_atomics(bench: Any, rng: np.random.Generator) -> None:
    n = 300
    v = rng.integers(0, 1000, n).astype(np.int32)
    sums = np.array([0] * 8 + [-1, 9999, 0, 0], np.int32)
    floats, big = np.zeros(1, np.float32), np.zeros(1, np.uint64)
    order = np.zeros(n + 1, np.uint32)
    bench.launch("atomics", 3, 128, sums, floats, order, big, v, np.int32(n))
    assert list(sums[:8]) == [int(((v & 7) == k).sum()) for k in range(8)]
    assert list(sums[8:]) == [v.max(), v.min(), np.bitwise_xor.reduce(v), v.sum()]
    assert floats[0] == v.sum() and big[0] == int(v.sum()) << 20
    assert sorted(order[:n]) == list(range(n)) and order[n] == n


@pytest.mark.parametrize("blocks", [3, 300])
def test_atomics_come_in_the_reverse_order_where_that_is_asked(bench: Any, blocks: int) -> None:
    """The order of lanes, warps and blocks that run together is reversed, and that of batches of
    blocks."""
    n, memory = blocks * 128, Memory()
    memory.descending = True
    order = np.zeros(n + 1, np.uint32)
    bench.launch(
        "atomics",
        blocks,
        128,
        np.zeros(12, np.int32),
        np.zeros(1, np.float32),
        order,
        np.zeros(1, np.uint64),
        np.zeros(n, np.int32),
        np.int32(n),
        memory=memory,
    )
    assert np.array_equal(order[:n], np.arange(n)[::-1]) and order[n] == n


def test_the_last_block_sees_all_others(bench: Any, rng: np.random.Generator) -> None:
    v = rng.integers(0, 9, 50 * 32).astype(np.float32)
    out, parts, ticket = np.zeros(1, np.float32), np.zeros(50, np.float32), np.zeros(1, np.uint32)
    bench.launch("last_block", 50, 32, out, parts, ticket, v)
    assert out[0] == v.sum()


def test_barriers_that_reduce(bench: Any, rng: np.random.Generator) -> None:
    v = rng.integers(-6, 95, (4, 96)).astype(np.int32)
    out = np.zeros((4, 3), np.int32)
    bench.launch("votes", 4, 96, out, v)
    assert np.array_equal(out[:, 0], (v > 0).sum(axis=1))
    assert np.array_equal(out[:, 1] != 0, (v > -5).all(axis=1))
    assert np.array_equal(out[:, 2] != 0, (v > 90).any(axis=1))


def test_cooperative_groups(bench: Any) -> None:
    v = np.arange(64, dtype=np.int32)
    out = np.zeros(64, np.int32)
    bench.launch("groups", 1, 64, out, v)
    assert np.array_equal(out, v.reshape(-1, 8).sum(axis=1).repeat(8))


def test_coordinates(bench: Any) -> None:
    grid, block = Dim3(3, 2, 2), Dim3(5, 3, 4)
    out = np.zeros(12 * 60, np.uint32)
    bench.launch("coordinates", grid, block, out)
    expected = []
    for b in np.ndindex(2, 2, 3):
        for linear, t in enumerate(np.ndindex(4, 3, 5)):
            lane = linear % 32
            place = t[2] | t[1] << 4 | t[0] << 8 | b[2] << 12 | b[1] << 16 | b[0] << 20
            expected.append(place + lane * 3 + linear // 32 * 5 + (1 << lane) - 1)
    assert np.array_equal(out, np.array(expected, np.uint32))


def test_a_sample_of_blocks(bench: Any, rng: np.random.Generator, aligned: Any) -> None:
    x = aligned(rng.integers(0, 9, (20, 64)).astype(np.float32))
    out = np.full(20, -1, np.float32)
    report = bench.launch("tree_sum", 20, 64, out, x, np.int32(64), shared=256, blocks=[0, 7, 19])
    chosen = np.isin(np.arange(20), [0, 7, 19])
    assert np.array_equal(out, np.where(chosen, x.sum(axis=1), -1))
    assert report.blocks_run == 3 and report.sampled
    assert report.counters.unique_load_sectors == 3 * 64 * 4 // 32


def test_batches_do_not_show(
    bench: Any, rng: np.random.Generator, aligned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counts and the results are those of the launch, however many blocks run together."""
    x = aligned(rng.integers(0, 9, (40, 100)).astype(np.float32))
    seen = []
    for lanes in (64, 32768):
        monkeypatch.setattr("astra_vgpu.numpy_engine.schedule.BATCH_LANES", lanes)
        out = aligned(np.zeros(40, np.float32))
        seen.append(bench.launch("tree_sum", 40, 64, out, x, np.int32(100), shared=256).counters)
        assert np.array_equal(out, x.sum(axis=1))
    assert seen[0] == seen[1]


def test_atomics_on_vectors_add_each_item(bench: Any) -> None:
    sums, found = np.zeros(4, np.float32), np.zeros(32, np.float32)
    bench.launch("add_vectors", 1, 32, sums, found)
    assert list(sums) == [2 * 32, 31 * 16, 2 * 31 * 16, 32]
    assert sorted(found) == [2 * lane for lane in range(32)]
