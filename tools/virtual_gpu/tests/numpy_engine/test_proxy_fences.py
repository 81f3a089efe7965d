"""Bulk copies that read what the launch stored to global memory need fence.proxy.async."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from astra_vgpu.types import Fault

EXPECTED = np.arange(128, 0, -1)


@pytest.fixture(scope="module")
def bench(compiled: Any) -> Any:
    return compiled("proxy_fences.cu")


def run(bench: Any, aligned: Any, kernel: str, how: int, grid: int = 2) -> Any:
    out = aligned(np.zeros((grid, 128), np.float32))
    room = aligned(np.zeros((grid + 1, 128), np.float32))
    bench.launch(kernel, grid, 128, out, room, np.int32(how))
    return out


@pytest.mark.parametrize("how", [0, 1, 2, 3, 4])
def test_a_store_needs_a_fence_of_its_warp_behind_it(bench: Any, aligned: Any, how: int) -> None:
    with pytest.raises(Fault, match=r"no fence\.proxy\.async for global memory") as caught:
        run(bench, aligned, "own", how)
    assert caught.value.kind == "missing_fence" and "of argument 1" in caught.value.message


@pytest.mark.parametrize("how", [10, 11, 12])
def test_whoever_stored_or_whoever_saw_it_may_run_the_fence(
    bench: Any, aligned: Any, how: int
) -> None:
    assert (run(bench, aligned, "own", how) == EXPECTED).all()


@pytest.mark.parametrize(("kernel", "how"), [("added", 0), ("added", 1), ("reduced", 0)])
def test_updates_and_bulk_reductions_need_it_too(
    bench: Any, aligned: Any, kernel: str, how: int
) -> None:
    with pytest.raises(Fault) as caught:
        run(bench, aligned, kernel, how, grid=1)
    assert caught.value.kind == "missing_fence"
    run(bench, aligned, kernel, 10, grid=1)


@pytest.mark.parametrize("how", [0, 1])
def test_a_flag_between_blocks_is_no_such_fence(bench: Any, aligned: Any, how: int) -> None:
    with pytest.raises(Fault) as caught:
        run(bench, aligned, "handed_on", how, grid=3)
    assert caught.value.kind == "missing_fence"


@pytest.mark.parametrize("how", [10, 11])
def test_a_fence_on_either_side_of_the_flag_is_enough(bench: Any, aligned: Any, how: int) -> None:
    out = run(bench, aligned, "handed_on", how, grid=3)
    assert (out[1:] == EXPECTED).all()


def test_bytes_beside_those_that_a_block_needs_are_no_fault(bench: Any, aligned: Any) -> None:
    run(bench, aligned, "beside", 0)
