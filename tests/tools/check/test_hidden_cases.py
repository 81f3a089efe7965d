"""Hidden cases: all legal, all different, and covering what hard-coded kernels miss."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import get_args

import pytest

from astra_chat.tools.check.hidden_cases import BUDGET_BYTES, GRID_LIMIT, draw, seeded, twin
from astra_chat.tools.task.folder import Dim, Task, find_task, task_names
from astra_chat.tools.types import Case, ValueFamily

SEEDS = range(20)


def beyond(case: Case) -> bool:
    """One dim, or two beside each other, have more extents than a grid's second."""
    return any(a * b > GRID_LIMIT for a, b in pairwise((1, *case.dims.values())))


@pytest.mark.parametrize("name", task_names())
def test_every_drawn_case_is_legal_and_small(name: str) -> None:
    task = find_task(name)
    for seed in SEEDS:
        for case in draw(task, "virtual", random.Random(seed)):
            task.require_legal(case)
            least = min(task.least_bytes(c) for c in task.check if c.dtype == case.dtype)
            assert beyond(case) or task.least_bytes(case) <= max(BUDGET_BYTES["virtual"], 4 * least)


def test_each_dtype_gets_odd_extents_heavy_tails_and_zeros_and_ones() -> None:
    task = find_task("silu_and_mul")
    for seed in SEEDS:
        cases = draw(task, "virtual", random.Random(seed))
        for dtype in task.dtypes:
            own = [c for c in cases if c.dtype == dtype]
            assert {"normal", "heavy_tail", "binary"} <= {c.values for c in own}
            assert any(c.dims["d"] // (16 // (4 if dtype == "float32" else 2)) % 2 for c in own)
        assert any(c.dims["tokens"] > GRID_LIMIT for c in cases)


def test_extents_and_seeds_differ_from_draw_to_draw() -> None:
    task = find_task("silu_and_mul")
    drawn = [c for s in SEEDS for c in draw(task, "virtual", random.Random(s))]
    assert {c.values for c in drawn} == set(get_args(ValueFamily)), "every family has its turn"
    assert len({c.seed for c in drawn}) == len(drawn) and all(c.seed for c in drawn)
    assert len({tuple(c.dims.values()) for c in drawn}) > len(drawn) / 2
    assert {c.offset for c in drawn} == {0, 1, 3}


def test_a_gpu_gets_larger_cases() -> None:
    task = find_task("silu_and_mul")
    largest = {
        kind: max(
            task.least_bytes(c)
            for s in SEEDS
            for c in draw(task, kind, random.Random(s))[:-1]
            if max(c.dims.values()) <= GRID_LIMIT
        )
        for kind in ("virtual", "cuda")
    }
    assert largest["cuda"] > 8 * largest["virtual"]


def narrow(task: Task, **dims: Dim) -> Task:
    return task.model_copy(update={"dims": {**task.dims, **dims}})


def test_two_dims_exceed_a_grid_together() -> None:
    """A block a token and head: neither token nor head alone has so many."""
    task = find_task("merge_state_v2")
    drawn = [c for s in SEEDS for c in draw(task, "virtual", random.Random(s))]
    together = [
        c for c in drawn if c.dims["n"] * c.dims["h"] > GRID_LIMIT and c.dims["n"] <= GRID_LIMIT
    ]
    assert together and all(c.dims["h"] > 1 for c in together)
    assert len({c.dims["n"] for c in together}) > 1


def test_a_narrow_domain_is_kept() -> None:
    task = narrow(
        find_task("silu_and_mul"),
        tokens=Dim(min=5, max=6),
        d=Dim(min=64, max=64, multiple_of_bytes=16),
    )
    for seed in SEEDS:
        for case in draw(task, "virtual", random.Random(seed)):
            task.require_legal(case)


def test_a_twin_differs_in_its_numbers_only() -> None:
    case = Case(dims={"tokens": 3, "d": 8}, dtype="float16", seed=5, offset=1)
    other = twin(case, random.Random(0))
    assert other.seed != 5 and other.model_copy(update={"seed": 5}) == case


def test_a_stated_seed_is_kept() -> None:
    case = Case(dims={"tokens": 3, "d": 8}, dtype="float16")
    assert seeded(case, 9).seed == 9
    assert seeded(case.model_copy(update={"seed": 4}), 9).seed == 4


def test_strided_arguments_get_pads_of_their_own() -> None:
    task = find_task("fused_add_rmsnorm")
    drawn = [c for s in SEEDS for c in draw(task, "virtual", random.Random(s))]
    assert all(set(c.pads) == {"input", "residual"} for c in drawn)
    assert any(c.pads["input"] != c.pads["residual"] for c in drawn)
    apart = next(c for c in drawn if c.pads["input"] != c.pads["residual"])
    by_name = {arg.name: arg.stride_of(apart) - apart.dims["h"] for arg in task.args}
    assert by_name == {**apart.pads, "weight": 0}
    with pytest.raises(ValueError, match="pads are 0 or more"):
        task.require_legal(apart.model_copy(update={"pads": {"weight": 8}}))
