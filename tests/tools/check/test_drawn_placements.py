"""How often drawn cases have their arguments in one buffer, and on which cases."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from astra_chat.tools.check.causes import changes
from astra_chat.tools.check.hidden_cases import draw, draw_swept, placed, twin
from astra_chat.tools.task.folder import Task, find_task, task_names
from astra_chat.tools.task.groups import Group
from astra_chat.tools.task.placement import layout, packed_pads
from astra_chat.tools.types import Case

ROTARY = find_task("rotary_embedding")
SMALL = Case(
    dims={"tokens": 3, "heads": 2, "kv_heads": 1, "head_size": 8, "rot_dim": 8, "max_position": 9},
    dtype="bfloat16",
)


def counted(task: Task, count: int = 400) -> Counter[str]:
    return Counter(case.packed for case in draw_swept(task, random.Random(1), count))


@pytest.mark.second_tier
def test_half_of_a_packed_task_s_cases_lie_in_one_buffer() -> None:
    kinds = counted(ROTARY)
    share = (kinds["rows"] + kinds["tensors"] + kinds["apart"]) / kinds.total()
    # A key that is absent lies nowhere: of these cases none is packed.
    assert 0.2 < share < 0.55 and min(kinds["rows"], kinds["tensors"]) > 20
    assert 0 < kinds["apart"] < kinds["rows"] / 2 and kinds["neighbours"] > 40
    exact = [
        case
        for case in draw_swept(ROTARY, random.Random(2), 400)
        if case.packed == "rows" and _stride(case) == _packed_stride(case)
    ]
    assert len(exact) > 10


def _stride(case: Case) -> int:
    return next(arg.strides_of(case)[0] for arg in ROTARY.args if arg.name == "query")


def _packed_stride(case: Case) -> int:
    return (case.dims["heads"] + 2 * case.dims["kv_heads"]) * case.dims["head_size"]


@pytest.mark.parametrize("name", task_names())
def test_every_task_has_neighbours_and_all_cases_are_legal(name: str) -> None:
    task = find_task(name)
    cases = draw(task, "virtual", random.Random(5))
    assert any(case.packed == "neighbours" for case in cases)
    for case in cases:
        task.require_legal(case)


def test_twins_lie_alike() -> None:
    rng = random.Random(3)
    for case in draw(ROTARY, "virtual", rng):
        one, other = layout(ROTARY, case), layout(ROTARY, twin(case, rng))
        assert (one.blocks, one.places) == (other.blocks, other.places)


@pytest.mark.second_tier
def test_in_place_calls_are_drawn_where_the_contract_has_them() -> None:
    task = find_task("rmsnorm")
    assert "same" not in counted(task, 100)
    task = task.model_copy(update={"same": (Group(args=("input", "out")),)})
    assert counted(task, 200)["same"] > 80


def test_what_cannot_lie_so_stays() -> None:
    absent = SMALL.model_copy(update={"absent": ("key",)})
    assert placed(ROTARY, absent, "rows", random.Random(0)) is None
    assert placed(ROTARY, absent, "neighbours", random.Random(0)) is not None


def test_causes_are_looked_for_among_packed_cases_too() -> None:
    case = packed_pads(ROTARY, SMALL, [8])
    usual = SMALL.model_copy(update={"dims": {**SMALL.dims, "heads": 1}})
    found = {change.back: change.case for change in changes(ROTARY, case, [usual])}
    assert found["heads = 1 instead of 2"].packed == "rows"
    (alone,) = (case for back, case in found.items() if "buffers of their own" in back)
    assert alone.packed == "apart" and alone.pads == case.pads
