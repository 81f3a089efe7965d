"""Calls at the contract's end: as many rows as are legal, or said to be too large."""

from __future__ import annotations

import random

import pytest

from astra_chat.tools.check.drawn_dims import GRID_LIMIT, at_ends, too_large_ends
from astra_chat.tools.check.hidden_cases import draw_confirming
from astra_chat.tools.entropy import Seed
from astra_chat.tools.task.folder import find_task, task_names


@pytest.mark.parametrize("name", task_names())
def test_every_dim_beyond_a_grid_s_limit_is_at_its_end_or_named(name: str) -> None:
    task = find_task(name)
    ends, left_out = at_ends(task, random.Random(1))
    large = too_large_ends(task)
    assert len(large) == len(left_out)
    for case in large:
        task.require_legal(case)
        assert not task.is_small(case)
    for kind, dims in ends:
        task.require_legal(kind.case(dims))
        task.require_small(kind.case(dims))
    for dim, legal in task.dims.items():
        reached = any(dims[dim] == legal.nearest(legal.max, kind.dtype) for kind, dims in ends)
        named = any(line.startswith(f"{dim}: ") for line in left_out)
        assert reached != named if legal.max > GRID_LIMIT else not named


def test_a_confirmation_reaches_the_last_legal_row() -> None:
    """No drawn case went beyond 524,288 of 1,048,576 rows."""
    cases, _ = draw_confirming(find_task("silu_and_mul"), Seed("1"))
    assert max(case.dims["tokens"] for case in cases) == 1_048_576
    _, left_out = draw_confirming(find_task("per_token_group_quant_fp8"), Seed("1"))
    assert any(line.startswith("tokens: a call with 1,048,576") for line in left_out)
