"""Planted numbers stand where they should, and nothing illegal is planted."""

from __future__ import annotations

import pytest
import torch

from astra_chat.tools.runners.oracle import WAYS, planted
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.types import Case, DTypeName

SILU = find_task("silu_and_mul")
ROTARY = find_task("rotary_embedding")
QUANT = find_task("per_token_group_quant_fp8")


def case_of(
    dtype: DTypeName, numbers: tuple[float, ...], name: str = "input", rows: int = 60
) -> Case:
    return Case(dims={"tokens": rows, "d": 16}, dtype=dtype, seed=5, planted={name: numbers})


def in_floats(
    task: Task, dtype: DTypeName, numbers: tuple[float, ...], rows: int = 60
) -> tuple[torch.Tensor, torch.Tensor]:
    """What was drawn, and the same with the numbers planted."""
    drawn = torch.randn((rows, 32), generator=torch.Generator().manual_seed(1))
    drawn = drawn.to(getattr(torch, dtype))
    return drawn, planted(task, case_of(dtype, numbers, rows=rows), {"input": drawn})["input"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_number_stands_in_each_way_with_its_neighbours(dtype: DTypeName) -> None:
    drawn, found = in_floats(SILU, dtype, (77.5,))
    hit = found == 77.5
    rows = hit.sum(dim=1)
    assert int((rows == 32).sum()) == 1, "a whole row"
    assert bool(hit[:, 0].sum() >= 2) and bool(hit[:, -1].sum() >= 2), "first and last elements"
    alone = (found == 0).sum(dim=1) == 31
    assert int(alone.sum()) == 1 and float(found[alone].sum()) == 77.5
    near = found[(found > 60) & (found < 90)].unique()
    assert len(near) == 3, "the numbers next below and next above"
    assert (found != drawn).any(dim=1).sum() == len(WAYS) + 4, "one row each"
    again = in_floats(SILU, dtype, (77.5,))[1]
    assert torch.equal(found, again)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_8_bit_floats_hold_planted_numbers_and_the_codes_beside(dtype: DTypeName) -> None:
    shape = (60, 2, 16)
    query = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    case = case_of("float32", (1.25, 1e6), "query")
    found = planted(ROTARY, case, {"query": query.to(getattr(torch, dtype))})["query"].double()
    alone = (found == 0).sum(dim=-1) == 15
    assert set(found[alone].flatten().tolist()) == {0.0, 1.25}
    assert bool(found.isfinite().all()) and float(found.abs().max()) < 10
    below, above = (1.125, 1.375) if dtype == "float8_e4m3fn" else (1.0, 1.5)
    whole = {row[0] for row in found.reshape(-1, 16).tolist() if len(set(row)) == 1}
    assert {below, 1.25, above} <= whole


def test_rows_begin_and_end_with_planted_ones() -> None:
    drawn, found = in_floats(SILU, "float32", (77.5, -3.25))
    changed = (found != drawn).any(dim=1)
    assert bool(changed[0]) and bool(changed[-1])


def test_a_single_row_holds_all_numbers() -> None:
    _, found = in_floats(SILU, "float32", (77.5, -3.25, 9.5), rows=1)
    assert len({77.5, -3.25, 9.5} & set(found.flatten().tolist())) >= 2


@pytest.mark.parametrize(("number", "legal"), [(9.9e36, True), (1.1e37, False)])
def test_only_what_the_range_allows_is_planted(number: float, legal: bool) -> None:
    _, found = in_floats(QUANT, "bfloat16", (number,))
    assert bool((found == torch.tensor(number).bfloat16()).any()) == legal


def test_an_argument_without_a_domain_holds_only_what_lies_between_the_drawn() -> None:
    shape = (40, 2, 16)
    query = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    dims = {
        "tokens": 40,
        "heads": 2,
        "kv_heads": 1,
        "head_size": 16,
        "rot_dim": 8,
        "max_position": 50,
    }
    case = Case(dims=dims, dtype="float32", planted={"query": (1.25, 1e6)})
    found = planted(ROTARY, case, {"query": query})["query"]
    assert bool((found == 1.25).any()) and float(found.abs().max()) < 10
    codes = torch.randint(2, shape, generator=torch.Generator().manual_seed(2)).float()
    kept = planted(ROTARY, case, {"query": codes})["query"]
    assert torch.equal(kept, codes), "zeros and ones are codes"


@pytest.mark.parametrize(
    "kind", ["any", "sorted", "permutation", "distinct", "positions", "slots", "lengths"]
)
def test_an_index_stays_of_its_kind(kind: str) -> None:
    args = tuple(
        arg.model_copy(update={"index": arg.index.model_copy(update={"kind": kind})})
        if arg.index
        else arg
        for arg in ROTARY.args
    )
    task = ROTARY.model_copy(update={"args": args})
    dims = {
        "tokens": 40,
        "heads": 2,
        "kv_heads": 1,
        "head_size": 16,
        "rot_dim": 8,
        "max_position": 50,
    }
    case = Case(dims=dims, dtype="float32", planted={"positions": (31.0, 7.0)})
    drawn = (
        torch.arange(40) if kind in ("permutation", "distinct", "slots") else torch.full((40,), 20)
    )
    found = planted(task, case, {"positions": drawn})["positions"].tolist()
    assert {31, 7} <= set(found)
    if kind in ("permutation", "distinct", "slots"):
        assert sorted(found) == list(range(40))
    if kind == "sorted":
        assert found == sorted(found)
