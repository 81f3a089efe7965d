"""Value families of single arguments: within the argument's domain, and of one sign."""

from __future__ import annotations

import math
from contextlib import closing
from typing import get_args

import pytest
import torch

from astra_chat.tools.case import LARGE_ROWS, SEED_BITS, large_sign
from astra_chat.tools.check.drawn_values import OF_ARGUMENTS
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.runners.oracle import generator_seed
from astra_chat.tools.runners.values import (
    LARGE_ALONE,
    DrawnCase,
    Numbers,
    Range,
    draw_argument,
    draw_in_range,
)
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import AnyFamily, ValueFamily

SHAPE = (64, 96)
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
LARGEST = 1e16
LARGE: tuple[AnyFamily, ...] = ("large", "heavy_tail", "magnitudes", "row_magnitudes")


def drawn(
    family: AnyFamily,
    dtype: torch.dtype = torch.float32,
    seed: int = 7,
    largest: float = LARGEST,
    shape: tuple[int, ...] = SHAPE,
) -> torch.Tensor:
    numbers = Numbers.of(seed, largest, dtype)
    generator = torch.Generator().manual_seed(seed)
    return draw_argument(family, generator, shape, dtype, numbers)


def test_numbers_smaller_than_the_smallest_are_drawn_as_zeros() -> None:
    """Whether they come from a family or are planted."""
    task = find_task("fused_add_rmsnorm_quant_fp8")
    small = {"residual": (1e-38, 0.5)}
    case = task.check[4].model_copy(
        update={"families": {"input": "row_magnitudes", "residual": "denormal"}, "planted": small}
    )
    with closing(Oracle(task)) as oracle:
        (made,) = oracle.oracle_cases([case], Stop())
        for arg in task.args[:2]:
            held = torch.frombuffer(bytearray(made.input_path(arg).read_bytes()), dtype=torch.int16)
            sizes = held.view(getattr(torch, arg.dtype_of(case))).double().abs()
            assert ((sizes == 0) | (sizes >= 1e-30)).all() and (sizes > 0).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", sorted({*OF_ARGUMENTS, "special", "mixed_rows"}))
def test_numbers_are_in_the_arguments_domain(family: AnyFamily, dtype: torch.dtype) -> None:
    values = drawn(family, dtype)
    assert values.dtype == dtype and tuple(values.shape) == SHAPE
    finite = values[values.isfinite()].double()
    assert finite.abs().max() <= LARGEST * 1.01
    assert len(finite) == values.numel() or family in ("special", "mixed_rows")
    other = drawn(family, dtype, seed=8).double().nan_to_num()
    assert other.ne(values.double().nan_to_num()).any()


@pytest.mark.parametrize("family", LARGE)
def test_large_numbers_of_a_case_have_one_sign(family: AnyFamily) -> None:
    signs = [drawn(family, seed=seed).sign().unique().tolist() for seed in range(8)]
    assert all(len({s for s in one if s}) == 1 for one in signs)
    assert [one[-1] for one in signs] == [large_sign(seed) for seed in range(8)]
    assert {one[-1] > 0 for one in signs} == {True, False}


@pytest.mark.parametrize("dtype", DTYPES)
def test_magnitudes_cover_the_whole_range(dtype: torch.dtype) -> None:
    exponents = drawn("magnitudes", dtype).double().abs().log2()
    low = torch.tensor(torch.finfo(dtype).tiny).double().log2()
    high = torch.tensor(min(LARGEST, torch.finfo(dtype).max)).double().log2()
    share = torch.histc((exponents - low) / (high - low), bins=8, min=0, max=1) / exponents.numel()
    assert share.min() > 0.04
    assert (exponents >= -14).double().mean() > 0.5, "where kernels have results"
    scales = drawn("row_magnitudes", dtype).double().abs().amax(dim=-1).log2()
    assert scales.max() - scales.min() > 0.7 * (high - low)


def test_shifted_arguments_of_a_case_share_their_shift() -> None:
    """The difference of two log-sum-exps stays of the order of one, however large they are."""
    generator = torch.Generator().manual_seed(0)
    shifts = []
    for seed in range(20):
        numbers = Numbers.of(seed, 1e30, torch.float32)
        one, other = (
            draw_argument("shifted", generator, SHAPE, torch.float32, numbers) for _ in range(2)
        )
        assert (one - other).abs().max() < 12
        shifts.append(abs(float(one.mean())))
    assert min(shifts) < 100 and max(shifts) > 1e5


def test_zeros_have_both_signs_and_fill_whole_rows() -> None:
    values = drawn("zeros")
    negative = torch.signbit(values)
    empty = (values == 0).all(dim=-1)
    assert 0.5 < float(empty.double().mean()) < 0.95
    assert any(bool(row.all()) for row in negative[empty])
    assert any(not bool(row.any()) for row in negative[empty])
    assert any(bool(row.any()) and not bool(row.all()) for row in negative[empty])
    assert (values[~empty] == 0).any() and (values[~empty] != 0).any()


def test_special_values_stay_below_the_largest_number() -> None:
    largest = set()
    for seed in range(12):
        values = drawn("special", seed=seed)
        assert values.isnan().any() and values.isinf().any() and (values == 0).any()
        largest.add(float(values[values.isfinite()].double().abs().max()) > LARGEST / 2)
        assert values[values.isfinite()].double().abs().max() <= LARGEST * 1.01
    assert largest == {True, False}


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_special_values_do_not_depend_on_their_order(dtype: torch.dtype) -> None:
    """In float32, as kernels add: an infinity, NaN or the rounded sum, whatever comes first."""
    kinds = set()
    for seed in range(40):
        case = DrawnCase({"n": 4}, dtype, "special")
        rows = case.draw(torch.Generator().manual_seed(seed), SHAPE).float()
        forwards, backwards = rows.cumsum(-1)[:, -1], rows.flip(-1).cumsum(-1)[:, -1]
        assert torch.equal(forwards.isnan(), backwards.isnan())
        assert torch.allclose(forwards, backwards, rtol=1e-4, atol=1e-4, equal_nan=True)
        infinite = rows[rows.isinf()]
        finite = rows[rows.isfinite()]
        greatest = finite[finite.abs() > 1e4]
        kinds.add((len(infinite.unique()), int(greatest.sign().sum().sign())))
        assert len(greatest) == 0 or set(greatest.sign().tolist()) == set(infinite.sign().tolist())
    assert kinds == {(2, 0), (1, 1), (1, -1)}


def test_some_special_rows_hold_one_or_two_values_only() -> None:
    """Zeros with one NaN, infinities alone, one number with one NaN: of half of all seeds."""
    kinds, with_bare = set[tuple[str, ...]](), 0
    for seed in range(16):
        rows = DrawnCase({"n": 4}, torch.float32, "special").draw(
            torch.Generator().manual_seed(seed), SHAPE
        )
        found = {tuple(sorted({str(value) for value in row})) for row in rows.abs().tolist()}
        bare = {values for values in found if len(values) <= 2}
        assert bool(bare) == bool(seed & 4)
        kinds |= bare
        with_bare += bool(bare)
    assert with_bare == 8
    assert kinds == {("0.0", "nan"), ("inf",), ("1.0", "nan"), ("nan",), ("0.0", "inf"), ("0.0",)}


@pytest.mark.parametrize("family", get_args(ValueFamily))
def test_families_of_whole_cases_are_what_they_were(family: ValueFamily) -> None:
    """Recorded cases are drawn again from their seeds: a family never changes."""
    case = DrawnCase({"n": 4}, torch.float32, family)
    first, second = (case.draw(torch.Generator().manual_seed(3), SHAPE) for _ in range(2))
    assert torch.equal(first.nan_to_num(), second.nan_to_num())
    assert first.dtype == torch.float32 and tuple(first.shape) == SHAPE


RANGES = [(0.0, 1.0), (1e-6, 300.0), (-2.5, -0.1), (-3.0, 8.0), (1e-10, 1e30), (99.9, 100.1)]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float8_e4m3fn])
@pytest.mark.parametrize("low_high", RANGES)
def test_numbers_of_a_range_lie_between_its_ends(
    low_high: tuple[float, float], dtype: torch.dtype
) -> None:
    between = Range(7, *low_high)
    for family in sorted({*OF_ARGUMENTS, "special"}):
        generator = torch.Generator().manual_seed(7)
        values = draw_in_range(family, generator, SHAPE, dtype, between)
        assert values.dtype == dtype and tuple(values.shape) == SHAPE
        numbers = values.double()
        if low_high[0] < 99 or dtype == torch.float32:  # else no number lies between them
            assert numbers.min() >= between.low and numbers.max() <= between.high, family


def test_normal_numbers_of_a_range_are_spread_over_it() -> None:
    def octiles(low: float, high: float) -> list[float]:
        generator = torch.Generator().manual_seed(3)
        drawn = draw_in_range("normal", generator, SHAPE, torch.float32, Range(1, low, high))
        scaled = drawn.log10() if low > 0 and high > 100 * low else drawn
        counts = torch.histc(scaled, 8)
        return (counts / counts.sum()).tolist()

    assert min(octiles(-4.0, 3.0)) > 0.1 and min(octiles(1e-6, 1e6)) > 0.1


def test_negative_infinity_stands_for_special_values_where_it_is_legal() -> None:
    between = Range(1, -8.0, 8.0, minus_infinity=True)
    generator = torch.Generator().manual_seed(3)
    special = draw_in_range("special", generator, SHAPE, torch.float32, between)
    assert not special.isnan().any() and (special == -torch.inf).any()
    finite = special[special.isfinite()]
    assert float(finite.min()) >= -8 and float(special.max()) <= 8
    normal = draw_in_range("normal", generator, SHAPE, torch.float32, between)
    assert bool(normal.isfinite().all())


def test_mixed_rows_hold_every_family_beside_normal_ones() -> None:
    """In a case of many rows each; in one of few they take turns with the seed."""
    many = torch.cat([drawn("mixed_rows", torch.float16, seed=seed) for seed in range(8)])
    rows = many.reshape(-1, many.shape[-1]).double()
    special = rows.isnan().any(dim=1) | rows.isinf().any(dim=1)
    least = torch.finfo(torch.float16).tiny
    greatest = rows.abs().nan_to_num().amax(dim=1)
    small = ~special & (greatest < 1e-3)
    assert 0.05 < special.double().mean() < 0.15
    assert (greatest == 0).any() and (small & (greatest < least) & (greatest > 0)).any()
    assert (~special & (greatest > 60)).any()
    usual = ~special & (greatest > 1) & (greatest < 10)
    assert 0.5 < usual.double().mean() < 0.75
    assert drawn("mixed_rows", shape=(0, 4)).shape == (0, 4)
    assert drawn("mixed_rows", shape=(7,)).shape == (7,)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rows_of_one_large_number_have_no_nan(dtype: torch.dtype, sign: float) -> None:
    """The largest number or an infinity, of the sign that the seed says, beside normal numbers."""
    seed = generator_seed(2**40 | LARGE_ROWS | (0 if sign > 0 else 2))
    rows = drawn("special", dtype, seed=seed).double()
    plain = DrawnCase({"n": 4}, dtype, "special").draw(torch.Generator().manual_seed(seed), SHAPE)
    for found, largest in ((rows, LARGEST), (plain.double(), LARGE_ALONE)):
        most = sign * min(largest, torch.finfo(dtype).max)
        large = found[~found.isnan().any(-1)]
        large = large[(large.abs() > 100).sum(-1) == 1]
        tops = {float(row[row.abs().argmax()]) for row in large}
        assert sign * math.inf in tops and any(abs(top / most - 1) < 0.01 for top in tops)


def test_families_of_recorded_seeds_stay() -> None:
    assert 2**SEED_BITS < LARGE_ROWS and generator_seed(7) == 7
    assert generator_seed(2**40 | 2) | LARGE_ROWS != generator_seed(2**40 | 2)
