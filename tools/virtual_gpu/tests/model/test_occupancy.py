"""Occupancy and launch errors, against what an H200 answered."""

from __future__ import annotations

from typing import Any

import pytest

from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.model.occupancy import blocks_per_sm, launch_error
from astra_vgpu.types import Dim3

H200 = spec("h200")

THREADS = (32, 96, 128, 160, 256, 512, 640, 1024)
SEEN = {
    (12, 0): (32, 21, 16, 12, 8, 4, 3, 2),
    (12, 10000): (20, 20, 16, 12, 8, 4, 3, 2),
    (10, 50000): (4, 4, 4, 4, 4, 4, 3, 2),
    (10, 100000): (2, 2, 2, 2, 2, 2, 2, 2),
    (10, 40960): (5, 5, 5, 5, 5, 4, 3, 2),
    (196, 0): (8, 2, 2, 1, 1, 0, 0, 0),
}
"""cudaOccupancyMaxActiveBlocksPerMultiprocessor by registers and shared bytes, for THREADS."""


@pytest.mark.parametrize(("registers", "shared"), SEEN)
def test_blocks_per_sm_as_on_an_h200(registers: int, shared: int) -> None:
    found = [
        blocks_per_sm(H200, registers=registers, shared_bytes=shared, threads=t) for t in THREADS
    ]
    assert tuple(found) == SEEN[registers, shared]


def test_no_block_fits_beyond_the_limits() -> None:
    assert blocks_per_sm(H200, registers=10, shared_bytes=232449, threads=32) == 0
    assert blocks_per_sm(H200, registers=10, shared_bytes=0, threads=1025) == 0
    assert blocks_per_sm(H200, registers=10, shared_bytes=0, threads=0) == 0


def test_other_gpus_hold_less() -> None:
    def fit(key: str, shared: int, threads: int) -> int:
        return blocks_per_sm(spec(key), registers=32, shared_bytes=shared, threads=threads)

    assert [fit(k, 0, 1024) for k in ("h100", "a100", "l40s", "rtx4090")] == [2, 2, 1, 1]
    assert [fit(k, 100 * 1024, 128) for k in ("h100", "a100", "l40s")] == [2, 1, 0]


FITTING: dict[str, Any] = {
    "registers": 32,
    "static_shared_bytes": 0,
    "dynamic_shared_bytes": 0,
    "max_dynamic_shared_bytes": 49152,
    "max_threads": 1024,
}
REFUSED = [
    (Dim3(1), Dim3(1025), {}, 1),
    (Dim3(1), Dim3(0), {}, 1),
    (Dim3(0), Dim3(32), {}, 1),
    (Dim3(1, 65536), Dim3(32), {}, 1),
    (Dim3(1, 1, 65536), Dim3(32), {}, 1),
    (Dim3(2**31), Dim3(32), {}, 1),
    (Dim3(1), Dim3(1, 1, 65), {}, 1),
    (Dim3(1), Dim3(32), {"dynamic_shared_bytes": 49153}, 1),
    (Dim3(1), Dim3(129), {"max_threads": 128}, 1),
    (Dim3(1), Dim3(1024), {"registers": 196}, 701),
    (Dim3(1), Dim3(288), {"registers": 196}, 701),
    (Dim3(265), Dim3(32), {"at_once": 2}, 720),
    (Dim3(265), Dim3(32), {"at_once": 2, "dynamic_shared_bytes": 49153}, 720),
    (Dim3(1), Dim3(288), {"at_once": 0, "registers": 196}, 720),
    (Dim3(265), Dim3(129), {"at_once": 2, "max_threads": 128}, 1),
]


@pytest.mark.parametrize(("grid", "block", "changed", "error"), REFUSED)
def test_launches_that_an_h200_refuses(
    grid: Dim3, block: Dim3, changed: dict[str, int], error: int
) -> None:
    assert launch_error(H200, grid, block, **(FITTING | changed)) == error


ACCEPTED = [
    (Dim3(2**31 - 1, 65535, 65535), Dim3(1024), {}),
    (Dim3(1), Dim3(1, 16, 64), {}),
    (Dim3(264), Dim3(32), {"at_once": 2}),
    (Dim3(1), Dim3(256), {"registers": 196, "max_threads": 256}),
    (Dim3(1), Dim3(32), {"dynamic_shared_bytes": 232448, "max_dynamic_shared_bytes": 232448}),
]


@pytest.mark.parametrize(("grid", "block", "changed"), ACCEPTED)
def test_launches_at_the_limits_are_taken(grid: Dim3, block: Dim3, changed: dict[str, int]) -> None:
    assert launch_error(H200, grid, block, **(FITTING | changed)) == 0
