"""Hidden cases: all legal, all different, and covering what hard-coded kernels miss."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from astra_chat.tools.case import LARGE_ROWS, ONE_PLACE, large_sign
from astra_chat.tools.check.drawn_dims import MUCH
from astra_chat.tools.check.drawn_values import OF_ARGUMENTS, SMALL, small_together
from astra_chat.tools.check.hidden_cases import (
    BUDGET_BYTES,
    NEAR_SERVED,
    SERVED,
    TOGETHER,
    draw,
    draw_confirming,
    draw_shared,
    draw_swept,
    seeded,
    twin,
)
from astra_chat.tools.entropy import Seed
from astra_chat.tools.task.contract import Dim
from astra_chat.tools.task.folder import Task, find_task, load_task, task_names
from astra_chat.tools.types import AnyFamily, Case, DeviceKind, ValueFamily
from tests.contracts.planted import contract
from tests.tools.task.contracts import write_contract

SEEDS = range(20)
FUSED = find_task("fused_add_rmsnorm")
ROW_SUM = load_task(Path(__file__).parents[2] / "attacks" / "tasks" / "row_sum")


def drawn(task: Task, device: DeviceKind = "virtual", seeds: range = SEEDS) -> Iterator[Case]:
    """The cases of single checks."""
    for seed in seeds:
        yield from draw(task, device, random.Random(seed))


def shared(task: Task) -> list[Case]:
    """Those of a few judges."""
    return [c for seed in range(3) for c in draw_shared(task, random.Random(seed))]


@pytest.mark.parametrize("name", task_names())
@pytest.mark.second_tier
def test_every_drawn_case_is_legal_and_small(name: str) -> None:
    task = find_task(name)
    for case in (*drawn(task), *shared(task)):
        task.require_legal(case)
        task.require_small(case)
    large = 0
    for case in drawn(task):
        least = min(task.least_bytes(c) for c in task.check if c.dtype == case.dtype)
        budget = BUDGET_BYTES["virtual"] * (MUCH if task.require else 1)
        large += task.least_bytes(case) > max(budget, 4 * least)
    together = TOGETHER.each + NEAR_SERVED.each + SERVED.each
    assert large <= len(SEEDS) * together, "large ones are few"
    for case in draw_shared(task, random.Random(0), confirming=True):
        task.require_legal(case)
        task.require_small(case)


def test_special_cases_come_with_the_largest_numbers_too() -> None:
    task = find_task("silu_and_mul")
    shared = draw_shared(task, random.Random(0), task.check)
    for case in task.check:
        if case.values == "special":
            alike = [c for c in shared if c.model_copy(update={"seed": case.seed}) == case]
            assert sorted(c.seed & 3 for c in alike) == [0, 2]


@pytest.mark.parametrize("name", task_names())
def test_swept_cases_are_legal_and_mostly_small(name: str) -> None:
    task = find_task(name)
    cases = draw_swept(task, random.Random(3), 200)
    for case in cases:
        task.require_legal(case)
        task.require_small(case)
    large = [case for case in cases if task.least_bytes(case) > 2**16]
    # Half of so few are triples, of which some extents take more.
    assert len(cases) > 190 and 0 < len(large) < 100
    assert {case.dtype for case in cases} == set(task.dtypes)


def test_each_dtype_gets_odd_extents_heavy_tails_and_zeros_and_ones() -> None:
    task = find_task("silu_and_mul")
    for seed in SEEDS:
        cases = draw(task, "virtual", random.Random(seed))
        for dtype in task.dtypes:
            own = [c for c in cases if c.dtype == dtype]
            assert {"normal", "heavy_tail", "binary"} <= {c.values for c in own}
            assert any(c.dims["d"] // (16 // (4 if dtype == "float32" else 2)) % 2 for c in own)


def test_seeds_differ_from_draw_to_draw() -> None:
    cases = list(drawn(find_task("silu_and_mul")))
    families = {c.values for c in cases} | {f for c in cases for f in c.families.values()}
    every = {*get_args(ValueFamily), *OF_ARGUMENTS, "mixed_rows"}
    assert families == every, "every family has its turn"
    assert "special" not in {c.values for c in cases}, "its greatest numbers are the argument's"
    assert "special" in {c.values for c in drawn(ROW_SUM)}
    assert len({c.seed for c in cases}) == len(cases) and all(c.seed for c in cases)
    assert len({tuple(c.dims.values()) for c in cases}) > len(cases) / 2


def test_every_argument_gets_every_family_by_itself() -> None:
    cases = [c for c in (*shared(FUSED), *drawn(FUSED)) if c.families]
    families: set[AnyFamily] = {*OF_ARGUMENTS, "special", "mixed_rows"}
    for arg in FUSED.args:
        of_rows = families if len(arg.shape) > 1 else families - {"mixed_rows"}
        assert {c.families[arg.name] for c in cases} == of_rows
    assert any(len(set(c.families.values())) == 3 for c in cases)
    special = [sorted(c.families.values()) for c in cases if "special" in c.families.values()]
    assert {tuple(one) for one in special} == {("normal", "normal", "special"), ("special",) * 3}


def test_an_argument_of_unknown_domain_gets_what_its_reference_draws() -> None:
    assert not any(c.families for c in (*shared(ROW_SUM), *drawn(ROW_SUM)))
    with pytest.raises(ValueError, match="families may name only these arguments"):
        ROW_SUM.require_legal(ROW_SUM.check[0].model_copy(update={"families": {"x": "normal"}}))


@pytest.mark.parametrize("name", ["silu_and_mul", "fused_add_rmsnorm", "per_token_quant_fp8"])
def test_large_cases_too_meet_special_and_small_numbers(name: str) -> None:
    """In rows of one argument: a path for large calls sees them nowhere else."""
    task = find_task(name)
    cases = [
        c for seed in range(4) for c in draw_shared(task, random.Random(seed), confirming=True)
    ]
    large = [c for c in cases if task.least_bytes(c) > 2**19]
    mixed = [c for c in large if "mixed_rows" in c.families.values()]
    assert len(large) / 3 < len(mixed) < len(large)
    assert all(list(c.families.values()).count("mixed_rows") == 1 for c in mixed)


@pytest.mark.second_tier
def test_large_cases_reach_the_path_of_wide_vectors() -> None:
    """Aligned, in round rows, with many of them: what most kernels are written for."""
    task = find_task("rmsnorm")
    for seed in SEEDS:
        cases, _ = draw_confirming(task, Seed(str(seed)))
        large = [c for c in cases if c.dims["tokens"] >= 256 and c.dims["h"] >= 256]
        wide = [
            c
            for c in large
            if not (c.offset or c.offsets)
            and all(arg.stride_of(c) % 8 == 0 for arg in task.args)
            and c.dims["h"] % 8 == 0
        ]
        assert len(large) > len(wide) >= 3
        assert {c.dims["tokens"] % 2 for c in wide} == {0, 1}


def test_few_results_are_not_asked_for_their_precision() -> None:
    """The baseline may be right by luck on one number, and further seeds would take time."""
    for case in shared(FUSED):
        if case.dims["tokens"] * case.dims["h"] < 8:
            assert case.families


@pytest.mark.second_tier
def test_arguments_start_at_places_of_their_own() -> None:
    cases = [*shared(FUSED), *drawn(FUSED)]
    assert {offset for c in cases for offset in c.offsets.values()} == set(range(64))
    assert any(len(set(c.offsets.values())) == 3 for c in cases)
    assert {c.offset for c in cases} > {0, 1, 3}
    apart = next(c for c in cases if len(set(c.offsets.values())) == 3)
    assert [arg.shift_of(apart) for arg in FUSED.args] == [
        16 * apart.offsets[arg.name] for arg in FUSED.args
    ]
    assert "input at " in apart.label


def test_a_gpu_gets_larger_cases() -> None:
    task = find_task("silu_and_mul")
    beyond = {
        kind: sum(task.least_bytes(c) > BUDGET_BYTES["virtual"] for c in drawn(task, kind))
        for kind in BUDGET_BYTES
    }
    assert beyond["cuda"] > 2 * beyond["virtual"] > 0


def test_a_winner_is_confirmed_on_more_rows() -> None:
    task = find_task("silu_and_mul")
    rows = {
        confirming: max(
            c.dims["tokens"]
            for seed in range(5)
            for c in draw_shared(task, random.Random(seed), confirming=confirming)
        )
        for confirming in (False, True)
    }
    assert rows[True] > 2**18 > rows[False] > 90_000


def test_a_narrow_domain_is_kept() -> None:
    task = find_task("silu_and_mul")
    dims = {"tokens": Dim(min=5, max=6), "d": Dim(min=64, max=64, multiple_of_bytes=16)}
    narrow = task.model_copy(update={"dims": dims})
    for case in (*drawn(narrow), *shared(narrow)):
        narrow.require_legal(case)


def test_a_twin_differs_in_its_numbers_only() -> None:
    case = Case(dims={"tokens": 3, "d": 8}, dtype="float16", seed=5, offset=1)
    other = twin(case, random.Random(0))
    assert other.seed != 5 and other.model_copy(update={"seed": 5}) == case


def test_a_stated_seed_is_kept() -> None:
    case = Case(dims={"tokens": 3, "d": 8}, dtype="float16")
    assert seeded(case, 9).seed == 9
    assert seeded(case.model_copy(update={"seed": 4}), 9).seed == 4


@pytest.mark.second_tier
def test_rows_lie_apart_by_up_to_several_rows() -> None:
    cases = [*shared(FUSED), *drawn(FUSED)]
    assert all(set(c.pads) == {"input", "residual"} for c in cases)
    assert any(c.pads["input"] != c.pads["residual"] for c in cases)
    assert any(c.pads["input"] > 2 * c.dims["h"] > 1000 for c in cases)
    assert any(c.pads["input"] and c.dims["h"] > 8192 for c in cases)
    apart = next(c for c in cases if c.pads["input"] != c.pads["residual"])
    by_name = {arg.name: arg.stride_of(apart) - apart.dims["h"] for arg in FUSED.args}
    assert by_name == {**apart.pads, "weight": 0}
    with pytest.raises(ValueError, match="pads must be 0 or more"):
        FUSED.require_legal(apart.model_copy(update={"pads": {"weight": 8}}))


@pytest.mark.second_tier
def test_scalars_are_drawn_over_their_range() -> None:
    (eps,) = FUSED.scalars
    assert eps.range is not None
    values = {c.scalars["eps"] for c in (*shared(FUSED), *drawn(FUSED))}
    assert {eps.value, *eps.others, *eps.range} < values and len(values) > 100
    low, high = eps.range
    assert all(low <= value <= high for value in values)
    decades = {int(f"{value:e}"[-3:]) for value in values}
    assert decades == set(range(-8, 0))
    with pytest.raises(ValueError, match="outside its range"):
        FUSED.require_legal(FUSED.check[0].model_copy(update={"scalars": {"eps": 0.5}}))


@pytest.mark.parametrize("name", ["rotary_embedding", "reshape_and_cache"])
def test_relations_views_and_scalars_of_schema_2(name: str) -> None:
    task = contract(name)
    cases = [*draw(task, "virtual", random.Random(3)), *draw_shared(task, random.Random(3))]
    for case in cases:
        task.require_legal(case)
        task.require_small(case)
    packed = [case.pads[task.args[1].name] for case in cases]
    assert all(isinstance(pads, tuple) and len(pads) == 2 for pads in packed)
    assert len({pads[0] for pads in packed if isinstance(pads, tuple)}) > 5
    for dim in task.dims:
        assert len({case.dims[dim] for case in cases}) > 3
    if task.scalars:
        assert {case.scalars["is_neox"] for case in cases} == {0.0, 1.0}


def test_every_combination_and_every_absence_is_drawn(tmp_path: Path) -> None:
    task = load_task(write_contract(tmp_path / "task"))
    cases = list(drawn(task, seeds=range(12)))
    for case in cases:
        task.require_legal(case)
    assert {(c.dtype, c.types["I"]) for c in cases} == {
        ("float16", "int64"),
        ("float16", "int32"),
        ("float32", "int64"),
    }
    assert {case.absent for case in cases} == {(), ("bias",)}
    assert {name for case in cases for name in case.families} == {"key", "bias"}
    of_bias = {case.families["bias"] for case in cases if "bias" in case.families}
    assert "magnitudes" in of_bias and "special" not in of_bias, "its range has no NaN"


def test_small_numbers_meet_in_all_arguments_and_in_all_but_one() -> None:
    """A small sum shows only where both of its terms are small."""
    args = [arg for arg in FUSED.args if arg.has_families]
    assert [arg.name for arg in args] == ["input", "residual", "weight"]
    sets = list(small_together(args, random.Random(0)))
    assert len(sets) == 4 * len(SMALL)
    found = {
        tuple(arg.name for arg in args if case.families.get(arg.name) == "normal")
        for case in draw_shared(FUSED, random.Random(1), confirming=True)
        if set(case.families.values()) & set(SMALL)
        and set(case.families.values()) <= {*SMALL, "normal"}
    }
    assert {(), ("input",), ("residual",), ("weight",)} <= found
    assert not list(small_together(args[:1], random.Random(0)))
    drawn = [case for seed in SEEDS for case in draw(FUSED, "virtual", random.Random(seed))]
    assert any(set(case.families.values()) <= {*SMALL} and case.families for case in drawn)


@pytest.mark.parametrize("name", ["row_sum", "topk_softmax", "fused_add_rmsnorm"])
def test_every_check_has_large_numbers_in_rows_without_nan(name: str) -> None:
    """Special values with rows of one large number, of either sign; and positive magnitudes in each
    argument that has families of its own."""
    task = ROW_SUM if name == "row_sum" else find_task(name)
    for seed in range(4):
        cases = draw_shared(task, random.Random(seed), task.check)
        large = [case for case in cases if case.seed & LARGE_ROWS]
        assert sorted(case.seed & 3 for case in large) == [0, 2]
        assert all("special" in (case.values, *case.families.values()) for case in large)
        for case in large:
            task.require_legal(case)
        for arg in (arg for arg in task.args if arg.has_families):
            there = [c for c in cases if c.families.get(arg.name) == "magnitudes"]
            assert any(large_sign(c.seed) > 0 and arg.shape_of(c)[-1] > 1 for c in there)


def test_every_check_has_so_many_equal_indices_that_16_bits_do_not_count_them() -> None:
    task = find_task("moe_align_block_size")
    for seed in range(3):
        (case,) = (c for c in draw_shared(task, random.Random(seed)) if c.seed & ONE_PLACE)
        assert case.dims["tokens"] * case.dims["topk"] * 0.9 > 2**16
        task.require_legal(case)


def test_every_check_has_the_longest_tables_and_lengths_that_are_served() -> None:
    task = find_task("gqa_paged_decode")
    for seed in range(3):
        cases = draw_shared(task, random.Random(seed))
        assert max(case.dims["max_pages"] for case in cases) == task.dims["max_pages"].max
        tokens = [case.dims["max_pages"] * case.dims["page_size"] for case in cases]
        served = [case.dims["max_pages"] * case.dims["page_size"] for case, _ in task.bench]
        longest = cases[tokens.index(max(tokens))]
        assert max(tokens) >= max(served) and longest.dims["spread"] == 0
        task.require_legal(longest)
