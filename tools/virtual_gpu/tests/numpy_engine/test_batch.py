"""Lanes that part meet again: loops, switches, calls, early returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[Any]


@pytest.fixture(scope="module")
def bench(compiled: Any) -> Any:
    return compiled("machine.cu")


def test_shuffles_ignore_threads_that_returned(bench: Any) -> None:
    x = np.ones(64, np.float32)
    out = np.zeros(64, np.float32)
    bench.launch("partial_warp", 1, 64, out, x, np.int32(40))
    assert (out[:32] == 32).all() and (out[40:] == 0).all()


def test_divergent_loops_meet_again(bench: Any) -> None:
    v = np.arange(1, 129, dtype=np.int32)
    out = np.zeros(128, np.int32)
    report = bench.launch("collatz", 2, 64, out, v)
    steps = np.array([collatz(int(x)) for x in v])
    odd = (steps & 1).reshape(-1, 32).sum(axis=1).repeat(32)
    assert np.array_equal(out, steps + odd)
    counters = report.counters
    assert counters.divergent_branches > 0
    assert counters.lane_instructions < 32 * counters.warp_instructions.total()


def test_switch_and_calls(bench: Any) -> None:
    v = (np.arange(128) % 10).astype(np.int32)
    out = np.zeros(128, np.int32)
    bench.launch("table", 1, 128, out, v)

    def fold(a: int, b: int) -> int:
        return a * 31 + b

    cases = [
        lambda i: fold(i, 1),
        lambda i: i // 7,
        lambda i: i % 5,
        lambda i: 32 - i.bit_length(),
        lambda i: int(f"{i:032b}"[::-1], 2),
        lambda i: (i & -i).bit_length(),
        lambda i: fold(fold(i, 2), 3),
        lambda i: i * (i - 1) // 2,
        lambda i: i << (i & 31),
        lambda i: -1,
    ]
    expected = np.array([cases[i % 10](i) & 0xFFFFFFFF for i in range(128)], np.uint32)
    assert np.array_equal(out.view(np.uint32), expected)


def collatz(v: int) -> int:
    steps = 0
    while v != 1:
        if v % 2 == 0:
            v //= 2
            steps += 1
            continue
        for k in range(3):
            if k == v % 5:
                break
            steps += k
        v = 3 * v + 1
        steps += 1
        if steps > 500:
            break
    return steps
