"""Cases of known numbers: legal, few, and each number where it is legal."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from astra_chat.tools.check.cases_by_heart import (
    MOST_CASES,
    MOST_SERVED,
    MOST_TOTALS,
    cases_by_heart,
)
from astra_chat.tools.entropy import Seed
from astra_chat.tools.known import NOTHING_KNOWN, KnownNumbers
from astra_chat.tools.task.folder import Task, find_task, task_names
from astra_chat.tools.types import Case

SEED = Seed("by heart")
MANY = KnownNumbers(
    sizes=tuple(
        n for one in (333, 40_000, 1237, 4104, 5000, 77, 177) for n in (one, one + 1, one - 1)
    ),
    rests=((13, 97),),
    values=(3.140625, -7.25, 1e-4, 1e5, -3e6, 12.5),
    bits=(0x4049, 0x42484248),
)


def cases(
    name: str, known: KnownNumbers, seed: Seed = SEED, confirming: bool = False
) -> list[Case]:
    return list(cases_by_heart(find_task(name), known, seed, confirming))


def strides(task: Task, some: Sequence[Case]) -> set[int]:
    strided = [arg for arg in task.args if arg.strided]
    return {stride for case in some for arg in strided for stride in arg.free_strides_of(case)}


@pytest.mark.parametrize("name", task_names())
@pytest.mark.second_tier
def test_all_cases_are_legal_small_and_reproducible(name: str) -> None:
    task = find_task(name)
    found = cases(name, MANY)
    for case in found:
        task.require_legal(case)
        task.require_small(case)
    assert found == cases(name, MANY)
    assert found != cases(name, MANY, Seed("another"))
    sized = [case for case in found if not case.planted]
    assert 0 < len(sized) <= MOST_CASES[0] + MOST_SERVED[0] + MOST_TOTALS
    assert len([case for case in cases(name, MANY, confirming=True)]) >= len(found)


def test_nothing_known_gives_no_case() -> None:
    assert not cases("silu_and_mul", NOTHING_KNOWN)


@pytest.mark.parametrize("size", [333, 4999, 70_001, 300_000])
def test_a_number_of_tokens_is_tried_with_its_neighbours(size: int) -> None:
    known = KnownNumbers(sizes=(size, size + 1, size - 1))
    tokens = {case.dims["tokens"] for case in cases("silu_and_mul", known)}
    wanted = {size, size + 1} if size >= 300_000 else {size, size + 1, size - 1}
    assert wanted <= tokens


def test_an_extent_is_tried_with_dtypes_that_allow_it() -> None:
    found = cases("silu_and_mul", KnownNumbers(sizes=(1236, 1240)))
    tried = {(case.dims["d"], case.dtype) for case in found}
    assert (1236, "float32") in tried and 1240 in {d for d, _ in tried}


def test_a_number_may_count_vectors() -> None:
    found = cases("silu_and_mul", KnownNumbers(sizes=(513,)))
    assert {513 * 8, 513 * 4} <= {case.dims["d"] for case in found}


@pytest.mark.parametrize("total", [1_500_000, 123_457])
def test_a_number_may_count_all_elements(total: int) -> None:
    found = cases("silu_and_mul", KnownNumbers(sizes=(total,)))
    elements = {case.dims["tokens"] * case.dims["d"] * by for case in found for by in (1, 2)}
    nearest = min(abs(count - total) for count in elements if count >= total)
    assert nearest == 0 if total == 1_500_000 else nearest < 4096


def test_a_stride_is_tried_in_elements_and_in_bytes() -> None:
    found = cases("rmsnorm", KnownNumbers(sizes=(4104,)))
    assert {4104, 2052} <= strides(find_task("rmsnorm"), found)


def test_a_stride_is_tried_at_each_place_where_a_caller_chooses_it() -> None:
    found = cases("rotary_embedding", KnownNumbers(sizes=(4104,)))
    query = next(arg for arg in find_task("rotary_embedding").args if arg.name == "query")
    chosen = [query.free_strides_of(case) for case in found]
    assert 4104 in {token for token, _ in chosen} and 4104 in {head for _, head in chosen}


def test_a_scalar_is_tried_where_it_is_legal() -> None:
    found = cases("rmsnorm", KnownNumbers(values=(1e-4, 3.0)))
    assert 1e-4 in {case.scalars.get("eps") for case in found}
    assert 3.0 not in {case.scalars.get("eps") for case in found}
    capped = cases("topk_softmax", KnownNumbers(values=(12.5, -1e4)))
    assert {case.scalars.get("moe_softcapping") for case in capped} <= {None, 12.5}


def test_a_literal_of_a_scalar_is_tried_among_different_extents() -> None:
    found = cases("moe_sum_reduce", KnownNumbers(sizes=(333, 40_000, 1237, 128), values=(3.0,)))
    tried = [case for case in found if case.scalars.get("scale") == 3.0]
    assert len(tried) > 3 and len({case.dtype for case in tried}) > 1
    assert min(case.dims["tokens"] for case in tried) <= 128


def test_the_only_number_is_tried_with_every_dtype() -> None:
    found = cases("moe_sum_reduce", KnownNumbers(sizes=(333,)))
    assert {case.dtype for case in found if case.dims["tokens"] == 333} >= {"bfloat16", "float16"}
    assert len({case.dims["experts"] for case in found if case.dims["tokens"] == 333}) > 1


def test_rests_give_sizes() -> None:
    found = cases("topk_softmax", KnownNumbers(rests=((13, 97),)))
    tokens = [case.dims["tokens"] for case in found if case.dims["tokens"] % 97 == 13]
    assert len(set(tokens)) >= 2


@pytest.mark.parametrize("name", ["silu_and_mul", "per_token_group_quant_fp8", "moe_sum_reduce"])
def test_values_are_planted_within_what_is_legal(name: str) -> None:
    found = [case for case in cases(name, MANY) if case.planted]
    numbers = {number for case in found for many in case.planted.values() for number in many}
    assert {3.140625, -7.25, 12.5} <= numbers
    both = [case for case in found for many in case.planted.values() if {1e5, -3e6} <= set(many)]
    assert not both, "large numbers of both signs cancel"


def test_bits_are_those_of_each_dtype() -> None:
    found = cases("rmsnorm", KnownNumbers(bits=(0x4049,)))
    numbers = {case.dtype: set(case.planted.get("input", ())) for case in found if case.planted}
    assert 2.142578125 in numbers["float16"] and 3.140625 in numbers["bfloat16"]
    packed = cases("rmsnorm", KnownNumbers(bits=(0x42484249,)))
    halves = {n for c in packed if c.dtype == "float16" for n in c.planted.get("input", ())}
    assert len(halves) == 2


def test_an_index_holds_the_number_in_a_table_that_is_large_enough() -> None:
    found = cases("rotary_embedding", KnownNumbers(sizes=(4711, 77)))
    held = {n for case in found for n in case.planted.get("positions", ())}
    assert {4711.0, 77.0} <= held
    # Legal numbers only: each case was checked above by require_legal.
    assert all(
        case.dims["max_position"] > max(case.planted["positions"])
        for case in found
        if "positions" in case.planted
    )
