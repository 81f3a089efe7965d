"""Extents of drawn cases: legal, within their budgets, and without gaps."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from pathlib import Path

import pytest

from astra_chat.tools.check.drawn_dims import (
    FAR_BEYOND,
    GRID_LIMIT,
    Dims,
    _short,
    at_boundaries,
    at_even_distances,
    least,
    near_least,
    odd,
    of_many_rows,
)
from astra_chat.tools.task.contract import Dim
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.folder import Task, find_task, load_task, task_names

SEEDS = range(10)
HALF = Combination("float16", {})
MAX_ROWS, MAX_BYTES = 2**17, 2**23


def size(task: Task, kind: Combination, dims: Dims) -> int:
    """Least bytes of a legal call."""
    case = kind.case(dims)
    task.require_legal(case)
    return task.least_bytes(case)


@pytest.mark.parametrize("name", task_names())
def test_sizes_lie_at_even_distances_from_the_least_to_the_greatest(name: str) -> None:
    """A window of sizes an octave wide is hit in every dim, whatever the seed."""
    task = find_task(name)
    for seed in SEEDS:
        for kind in task.combinations:
            drawn = list(at_even_distances(task, kind, random.Random(seed), 2**16, 1.0))
            assert all(size(task, kind, dims) for dims in drawn)
            for which, dim in task.dims.items():
                own = sorted({dims[which] for dims in drawn})
                step = dim.step(kind.dtype)
                assert own[0] <= 2 * max(1, least(task, kind)[which])
                if dim.values:  # nothing is valid between them
                    continue
                short = _short(task, kind, which)[1] * step  # beyond it other dims' cases lie
                gaps = (b - 2 * a for a, b in pairwise(own) if b <= short)
                assert all(gap <= 2 * step for gap in gaps)


def test_round_sizes_are_drawn_beside_odd_ones() -> None:
    """Kernels take vectors there: several rows of a round length are drawn, and of odd ones."""
    task = find_task("fused_add_rmsnorm")
    drawn = [
        dims
        for seed in SEEDS
        for dims in at_even_distances(task, HALF, random.Random(seed), 2**16, 1.0)
        if dims["tokens"] > 1 and dims["h"] > 8
    ]
    rounded = [dims for dims in drawn if dims["h"] % 8 == 0]
    assert len(drawn) / 6 < len(rounded) < len(drawn) / 2
    assert sum(dims["h"] % 64 == 0 for dims in drawn) >= len(SEEDS)


def test_the_longest_row_is_among_the_boundaries() -> None:
    task = find_task("silu_and_mul")
    for kind in task.combinations:
        rng = random.Random(0)
        drawn = [one for name in task.dims for one in at_boundaries(task, kind, name, rng, 2**16)]
        assert task.dims["d"].max in {dims["d"] for dims in drawn}
        assert all(size(task, kind, dims) for dims in drawn)
        powers = {2**k for k in range(20)}
        assert any(dims["tokens"] in powers for dims in drawn)
        assert any(dims["tokens"] - 1 in powers or dims["tokens"] + 1 in powers for dims in drawn)


def test_many_rows_go_far_beyond_a_grids_limit() -> None:
    task = find_task("silu_and_mul")
    for seed in SEEDS:
        drawn = list(of_many_rows(task, random.Random(seed), 2.0, MAX_ROWS, MAX_BYTES))
        assert all(size(task, kind, dims) <= MAX_BYTES for kind, dims in drawn)
        rows = [dims["tokens"] for _, dims in drawn]
        assert FAR_BEYOND <= max(rows) <= MAX_ROWS
        assert sum(4096 <= count <= GRID_LIMIT for count in rows) >= 2
    larger = list(of_many_rows(task, random.Random(0), 1.0, 2**19, 2**25, every_dtype=True))
    for kind in task.combinations:
        rows = [d["tokens"] for t, d in larger if t == kind]
        own = sorted(count for count in rows if 4096 <= count <= GRID_LIMIT)
        assert len(own) >= 4 and all(b <= 2 * a + 1 for a, b in pairwise(own))
    assert max(dims["tokens"] for _, dims in larger) > 2**18


def test_beside_many_rows_other_dims_are_not_always_least() -> None:
    """A row of two heads, a second vector: what only many rows reach must be right for these."""
    task = find_task("qk_rmsnorm_rope")
    drawn = [
        (dims, least(task, kind))
        for seed in SEEDS
        for kind, dims in of_many_rows(task, random.Random(seed), 1.0, 2**19, 2**25)
        if dims["tokens"] >= 4096
    ]
    for name in ("heads", "head_dim"):
        times = {dims[name] // low[name] for dims, low in drawn}
        assert times >= {1, 2}
    assert any(dims["heads"] > 1 and dims["tokens"] > 2**14 for dims, _ in drawn)


def test_what_makes_no_rows_goes_near_the_largest() -> None:
    """A vector of a million elements has one row: its length is bounded by bytes alone."""
    task = load_task(Path(__file__).parents[2] / "attacks" / "tasks" / "scan")
    for seed in SEEDS:
        drawn = list(of_many_rows(task, random.Random(seed), 2.0, MAX_ROWS, MAX_BYTES))
        assert max(dims["n"] for _, dims in drawn) > 700_000
        assert all(size(task, kind, dims) <= MAX_BYTES for kind, dims in drawn)


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
        drawn = odd(task, HALF, random.Random(seed), 2**14)
        assert size(task, HALF, drawn) <= 2**14
        long = odd(task, HALF, random.Random(seed), 2**14, {"h": 32768})
        assert long == {"tokens": 1, "h": 32768}
        near = near_least(task, HALF, random.Random(seed))
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
            near_least(narrow, HALF, rng),
            odd(narrow, HALF, rng, 2**16),
            *at_boundaries(narrow, HALF, "d", rng, 2**16),
            *at_boundaries(narrow, HALF, "tokens", rng, 2**16),
            *at_even_distances(narrow, HALF, rng, 2**16, 1.0),
        ]
        assert all(dims["d"] == 64 and dims["tokens"] in (5, 6) for dims in drawn)
        assert not list(of_many_rows(narrow, rng, 1.0, MAX_ROWS, MAX_BYTES))
        assert math.prod(drawn[0].values()) >= 320
