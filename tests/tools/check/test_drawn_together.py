"""Cases of several large dims: legal, large in each of them, and of every pair by turns."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from astra_chat.tools.check.drawn_dims import least
from astra_chat.tools.check.drawn_together import (
    LARGER_BYTES,
    MOST_BYTES,
    beside_served,
    large_together,
    near_served,
)
from astra_chat.tools.task.folder import find_task, task_names

SEEDS = range(10)


@pytest.mark.parametrize("name", task_names())
def test_large_cases_are_legal_and_within_their_bytes(name: str) -> None:
    task = find_task(name)
    for draw in (large_together, near_served):
        drawn = list(draw(task, random.Random(3), 6))
        assert drawn
        for kind, dims in drawn:
            case = kind.case(dims)
            task.require_legal(case)
            assert task.size_bytes(case) <= MOST_BYTES


def test_rows_are_many_and_long_at_once() -> None:
    """No region of such sizes is left out: a few draws lie in each corner."""
    task = find_task("rmsnorm")
    drawn = [dims for seed in SEEDS for _, dims in large_together(task, random.Random(seed), 4)]
    assert len(drawn) == 4 * len(SEEDS)
    assert all(min(dims.values()) >= 8 for dims in drawn)
    for rows, length in ((2048, 64), (256, 512), (32, 4096)):
        assert any(dims["tokens"] >= rows and dims["h"] >= length for dims in drawn)
    assert any(dims["h"] % 2 for dims in drawn) and any(dims["tokens"] % 2 for dims in drawn)


def test_every_pair_of_dims_has_its_turn() -> None:
    task = find_task("topk_softmax")
    seen = set[tuple[str, str]]()
    for seed in SEEDS:
        for kind, dims in large_together(task, random.Random(seed), 3):
            low = least(task, kind)
            large = [name for name in dims if dims[name] >= 4 * low[name]]
            seen |= set(combinations(large, 2))
    assert seen == set(combinations(task.dims, 2))


def test_near_served_calls_hardly_any_extent_is_served() -> None:
    task = find_task("rotary_embedding")
    served = {case.dims["heads"] for case, _ in task.bench}
    drawn = [dims for seed in SEEDS for _, dims in near_served(task, random.Random(seed), 4)]
    assert any(d["heads"] not in served and d["heads"] > 16 and d["tokens"] > 32 for d in drawn)


def test_beside_served_calls_one_extent_alone_differs() -> None:
    """Heads of 128, all of them rotated, with any number of tokens; 8 experts and long rows."""
    rotary = find_task("rotary_embedding")
    drawn = [dims for seed in SEEDS for _, dims in beside_served(rotary, random.Random(seed), 4)]
    whole = [d for d in drawn if d["head_size"] == d["rot_dim"] == 128]
    assert any(d["tokens"] % 2 and d["tokens"] > 1024 for d in whole)
    sums = find_task("moe_sum_reduce")
    drawn = [dims for seed in SEEDS for _, dims in beside_served(sums, random.Random(seed), 4)]
    assert any(d["experts"] == 8 and d["tokens"] > 256 and d["hidden"] > 2048 for d in drawn)


@pytest.mark.parametrize("name", task_names())
def test_cases_beside_served_calls_are_legal(name: str) -> None:
    task = find_task(name)
    for kind, dims in beside_served(task, random.Random(1), 6):
        task.require_legal(kind.case(dims))
        assert task.size_bytes(kind.case(dims)) <= LARGER_BYTES[1]


def test_a_single_dim_has_no_group() -> None:
    task = find_task("silu_and_mul")
    narrow = task.model_copy(
        update={"dims": {**task.dims, "tokens": task.dims["tokens"].model_copy(update={"max": 2})}}
    )
    assert not list(large_together(narrow, random.Random(0), 4))
