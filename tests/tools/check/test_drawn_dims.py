"""Extents of drawn cases: legal, within their budgets, and without gaps."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest

from astra_chat.tools.check.drawn_dims import (
    FAR_BEYOND,
    GRID_LIMIT,
    Dims,
    at_boundaries,
    at_even_distances,
    least,
    near_least,
    odd,
    of_many_rows,
)
from astra_chat.tools.task.contract import Dim
from astra_chat.tools.task.folder import Task, find_task, task_names
from astra_chat.tools.types import Case, DTypeName

SEEDS = range(10)
MAX_ROWS, MAX_BYTES = 2**17, 2**23


def size(task: Task, dtype: DTypeName, dims: Dims) -> int:
    """Least bytes of a legal call."""
    case = Case(dims=dims, dtype=dtype)
    task.require_legal(case)
    return task.least_bytes(case)


@pytest.mark.parametrize("name", task_names())
def test_sizes_lie_at_even_distances_from_the_least_to_the_greatest(name: str) -> None:
    """A window of sizes an octave wide is hit in every dim, whatever the seed."""
    task = find_task(name)
    for seed in SEEDS:
        for dtype in task.dtypes:
            drawn = list(at_even_distances(task, dtype, random.Random(seed), 2**16, 1.0))
            assert all(size(task, dtype, dims) for dims in drawn)
            for which, dim in task.dims.items():
                own = sorted({dims[which] for dims in drawn})
                step = dim.step(dtype)
                assert own[0] <= 2 * least(task, dtype)[which]
                gaps = (b - 2 * a for a, b in pairwise(own))
                assert all(gap <= 2 * step for gap in gaps)


def test_the_longest_row_is_among_the_boundaries() -> None:
    task = find_task("silu_and_mul")
    for dtype in task.dtypes:
        drawn = list(at_boundaries(task, dtype, random.Random(0), 2**16))
        assert task.dims["d"].max in {dims["d"] for dims in drawn}
        assert all(size(task, dtype, dims) for dims in drawn)
        powers = {2**k for k in range(20)}
        assert any(dims["tokens"] in powers for dims in drawn)
        assert any(dims["tokens"] - 1 in powers or dims["tokens"] + 1 in powers for dims in drawn)


def test_many_rows_go_far_beyond_a_grids_limit() -> None:
    task = find_task("silu_and_mul")
    for seed in SEEDS:
        drawn = list(of_many_rows(task, random.Random(seed), 2.0, MAX_ROWS, MAX_BYTES))
        assert all(size(task, dtype, dims) <= MAX_BYTES for dtype, dims in drawn)
        rows = [dims["tokens"] for _, dims in drawn]
        assert FAR_BEYOND <= max(rows) <= MAX_ROWS
        assert sum(4096 <= count <= GRID_LIMIT for count in rows) >= 2
    larger = list(of_many_rows(task, random.Random(0), 1.0, 2**19, 2**25, every_dtype=True))
    for dtype in task.dtypes:
        rows = [d["tokens"] for t, d in larger if t == dtype]
        own = sorted(count for count in rows if 4096 <= count <= GRID_LIMIT)
        assert len(own) >= 4 and all(b <= 2 * a + 1 for a, b in pairwise(own))
    assert max(dims["tokens"] for _, dims in larger) > 2**18


def test_two_dims_exceed_a_grid_together() -> None:
    """A block a token and head: neither token nor head alone has so many."""
    task = find_task("merge_state_v2")
    together = [
        dims
        for seed in range(20)
        for _, dims in of_many_rows(task, random.Random(seed), 2.0, MAX_ROWS, MAX_BYTES)
        if dims["n"] * dims["h"] > GRID_LIMIT >= dims["n"]
    ]
    assert together and all(dims["h"] > 1 for dims in together)
    assert len({dims["n"] for dims in together}) > 1


def test_other_dims_stay_within_the_budget() -> None:
    task = find_task("fused_add_rmsnorm")
    for seed in SEEDS:
        drawn = odd(task, "float16", random.Random(seed), 2**14)
        assert size(task, "float16", drawn) <= 2**14
        long = odd(task, "float16", random.Random(seed), 2**14, {"h": 32768})
        assert long == {"tokens": 1, "h": 32768}
        near = near_least(task, "float16", random.Random(seed))
        assert max(near.values()) <= 3


def test_a_narrow_domain_is_kept() -> None:
    task = find_task("silu_and_mul")
    narrow = task.model_copy(
        update={
            "dims": {
                "tokens": Dim(min=5, max=6),
                "d": Dim(min=64, max=64, multiple_of_bytes=16),
            }
        }
    )
    for seed in SEEDS:
        rng = random.Random(seed)
        drawn = [
            near_least(narrow, "float16", rng),
            odd(narrow, "float16", rng, 2**16),
            *at_boundaries(narrow, "float16", rng, 2**16),
            *at_even_distances(narrow, "float16", rng, 2**16, 1.0),
        ]
        assert all(dims["d"] == 64 and dims["tokens"] in (5, 6) for dims in drawn)
        assert not list(of_many_rows(narrow, rng, 1.0, MAX_ROWS, MAX_BYTES))
        assert math.prod(drawn[0].values()) >= 320
