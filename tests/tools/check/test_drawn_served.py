"""Extents that kernels are written for: each served one, neighbours of round ones, all round."""

from __future__ import annotations

import random

import pytest

from astra_chat.tools.check.drawn_dims import ROUND
from astra_chat.tools.check.hidden_cases import all_round, at_served, at_usual, beside_round
from astra_chat.tools.task.folder import find_task, task_names

BUDGET = 2**16
SEEDS = range(10)


@pytest.mark.parametrize("name", task_names())
def test_every_extent_is_legal(name: str) -> None:
    task, rng = find_task(name), random.Random(3)
    drawn = [kind.case(dims) for kind, dims in at_served(task, rng, 200, BUDGET)]
    drawn += [kind.case(dims) for kind, dims in at_usual(task, rng, 50, BUDGET)]
    for kind in task.combinations:
        drawn += [kind.case(dims) for dims in beside_round(task, kind, rng, BUDGET)]
        drawn += [kind.case(all_round(task, kind, rng, BUDGET)) for _ in SEEDS]
    for case in drawn:
        task.require_legal(case)
        task.require_small(case)


def test_each_served_extent_meets_each_dtype_beside_small_dims() -> None:
    task = find_task("topk_softmax")
    drawn = list(at_served(task, random.Random(0), 200, BUDGET))
    for case, _ in task.bench:
        own = [k for k, dims in drawn if dims["experts"] == case.dims["experts"]]
        assert {kind.dtype for kind in own} == set(task.dtypes)
    small = [kind.case(dims) for kind, dims in drawn if dims["tokens"] < 1024]
    assert all(task.size_bytes(case) <= BUDGET for case in small)
    few = list(at_served(task, random.Random(0), 5, BUDGET))
    assert 0 < len(few) <= 5 and few == drawn[: len(few)]


def test_usual_extents_of_each_dim_come_once_before_one_comes_again() -> None:
    task = find_task("moe_sum_reduce")
    drawn = list(at_usual(task, random.Random(0), 36, BUDGET))
    usual = {e << k for k in range(7) for e in (1, 3) if e << k <= 64}
    assert usual <= {dims["experts"] for _, dims in drawn}
    assert {kind.dtype for kind, _ in drawn} == set(task.dtypes)


def test_neighbours_of_round_numbers() -> None:
    task = find_task("rmsnorm")
    kind = task.combinations[0]
    drawn = [d for s in SEEDS for d in beside_round(task, kind, random.Random(s), BUDGET)]
    beside = [d["h"] for d in drawn if d["h"] > 8 and any(d["h"] % r in (1, r - 1) for r in ROUND)]
    assert len(beside) >= len(SEEDS) // 2


def test_all_round_is_round_in_every_dim() -> None:
    task = find_task("rotary_embedding")
    for kind in task.combinations:
        for seed in SEEDS:
            dims = all_round(task, kind, random.Random(seed), BUDGET)
            assert dims["rot_dim"] % 16 == dims["head_size"] % 16 == 0
            assert task.size_bytes(kind.case(dims)) <= BUDGET
