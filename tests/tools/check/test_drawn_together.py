"""Cases of several large dims: legal, large in each of them, and of every pair by turns."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from astra_chat.tools.check.drawn_dims import least
from astra_chat.tools.check.drawn_together import MOST_BYTES, large_together, near_served
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


def test_a_single_dim_has_no_group() -> None:
    task = find_task("silu_and_mul")
    narrow = task.model_copy(
        update={"dims": {**task.dims, "tokens": task.dims["tokens"].model_copy(update={"max": 2})}}
    )
    assert not list(large_together(narrow, random.Random(0), 4))
