"""Barriers of the block: who is missed there, and who is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from astra_vgpu.types import Fault


@pytest.fixture(scope="module")
def bench(compiled: Any) -> Any:
    return compiled("barriers.cu")


def test_lanes_that_returned_before_are_absent(bench: Any) -> None:
    x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    bench.launch("returned_early", 1, 128, out, x, np.int32(77))
    assert (out[:77] == np.roll(x[:77], -1)).all() and (out[77:] == 0).all()


def test_lanes_may_store_something_and_return_from_a_loop(bench: Any) -> None:
    x, out = np.zeros(128, np.float32), np.zeros(128, np.float32)
    bench.launch("stored_and_returned", 1, 128, out, x, np.int32(45))
    assert (out[:43] == 3).all() and out[43] == -3 and out[44] == -2 and (out[45:] == -1).all()


def test_whole_warps_may_wait_at_two_places(bench: Any) -> None:
    out = np.zeros(64, np.int32)
    bench.launch("two_places", 1, 64, out, np.int32(5))
    assert (out[:32] == 10).all() and (out[32:] == 6).all()


@pytest.mark.parametrize(
    ("kernel", "line", "words"),
    [
        ("torn_between_two", 43, "other threads of the warp wait at another barrier (barriers"),
        ("skipped_then_branched", 48, "only some threads of the warp reach this barrier"),
        ("skipped_in_a_loop", 55, "only some threads of the warp reach this barrier"),
    ],
)
def test_lanes_that_went_round_a_barrier_are_missed(
    bench: Any, kernel: str, line: int, words: str
) -> None:
    with pytest.raises(Fault) as caught:
        bench.launch(kernel, 1, 64, np.zeros(64, np.int32), np.int32(3))
    assert caught.value.kind == "barrier_divergence" and words in caught.value.message
    assert f"barriers.cu:{line}," in caught.value.where


@pytest.mark.parametrize(
    ("kernel", "n", "line"),
    [
        ("skipped_by_a_warp", 3, 0),  # the other warp ends: who has ended is not waited for
        ("skipped_then_waited", 3, 68),
        ("fewer_turns", 4, 0),
        ("fewer_turns", 3, 77),
    ],
)
def test_a_warp_that_went_round_a_barrier_may_end_but_not_wait_at_a_later_one(
    bench: Any, kernel: str, n: int, line: int
) -> None:
    try:
        bench.launch(kernel, 1, 64, np.zeros(64, np.int32), np.int32(n))
    except Fault as fault:
        assert fault.kind == "barrier_divergence" and line, str(fault)
        assert f"barriers.cu:{line}," in fault.where, str(fault)
        assert "went round this barrier and wait at a later one (barriers.cu:" in fault.message
        return
    assert not line
