"""Errors by column, on made-up results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from astra_chat.tools.check.column_bias import MODULI, ColumnBias
from astra_chat.tools.check.floats import Array, rounded, ulp
from astra_chat.tools.check.measured_values import MeasuredPiece
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import AnyFamily, Case, DTypeName

OUT = find_task("silu_and_mul").args[0]
ROWS, WIDTH, GROUP = 256, 64, 8
DRAWS = 20
"""Repetitions, each of some thousands of differences."""


def piece(got: Array, expected: Array, seed: int = 1) -> MeasuredPiece:
    case = Case(dims={"tokens": ROWS, "d": WIDTH}, dtype="float16", seed=seed)
    nowhere = Path("none")
    ran = np.arange(got.size)
    oracle_case = OracleCase(case, nowhere, nowhere)
    return MeasuredPiece(OUT, case, got.ravel(), expected.ravel(), ran, oracle_case)


def in_groups(random: np.random.Generator) -> tuple[Array, Array]:
    """Results whose rows have their errors in common, eight by eight, within half an ulp more than
    rounding; and what is expected."""
    expected = random.uniform(1, 2, (ROWS, WIDTH))
    ulps = random.uniform(-1, 1, (ROWS // GROUP, WIDTH)).repeat(GROUP, axis=0)
    return rounded(expected + ulps * 2.0**-10, "float16"), expected


def test_a_case_that_is_called_again_counts_once() -> None:
    """A check on a GPU calls some cases a dozen times: the same errors are no more evidence."""
    random = np.random.default_rng(5)
    for _ in range(DRAWS):
        kernel, baseline = ColumnBias(), ColumnBias()
        got, expected = in_groups(random)
        for _ in range(14):
            elsewhere = ColumnBias()
            elsewhere.add(piece(got, expected))
            kernel.merge(elsewhere)
            kernel.add(piece(got, expected))
        baseline.add(piece(rounded(expected, "float16"), expected))
        assert kernel.beside(baseline) is None


def test_rows_of_a_group_are_one_sample() -> None:
    random = np.random.default_rng(6)
    for _ in range(DRAWS):
        kernel, baseline = ColumnBias(), ColumnBias()
        for seed in range(4):
            got, expected = in_groups(random)
            kernel.add(piece(got, expected, seed))
            baseline.add(piece(rounded(expected, "float16"), expected, seed))
        assert kernel.beside(baseline) is None


def test_truncated_columns_are_found() -> None:
    random = np.random.default_rng(7)
    kernel, baseline = ColumnBias(), ColumnBias()
    for seed in range(4):
        expected = random.uniform(1, 2, (ROWS, WIDTH))
        nearest = rounded(expected, "float16")
        down = np.floor(expected * 1024) / 1024
        got = np.where(np.arange(WIDTH) % 16 == 5, down, nearest)
        kernel.add(piece(got, expected, seed))
        baseline.add(piece(nearest, expected, seed))
    found = kernel.beside(baseline)
    assert found is not None and "columns whose index is 5 modulo" in found.note
    kernel.forget(piece(got, expected, 3).case)
    assert kernel.beside(baseline) is not None


@pytest.mark.parametrize("width", [8, 12, 40, 64, 200])
def test_columns_are_summed_by_their_remainders(width: int) -> None:
    """The errors' sum and number by each modulus, less the mean of their rows, whatever the width
    of a row."""
    random, rows = np.random.default_rng(7), 24
    expected = random.uniform(1, 2, (rows, width))
    got = rounded(expected, "float16")
    one = piece(got, expected)
    wide = one.case.model_copy(update={"dims": {"tokens": rows, "d": width}})
    bias = ColumnBias()
    bias.add(one._replace(case=wide))
    (found,) = bias.sums["out", "float16"].values()
    error = (got - expected) / ulp(expected, "float16")
    error -= error.mean(axis=1, keepdims=True)
    for place, modulus in enumerate(MODULI):
        for remainder in range(modulus):
            columns = error[:, remainder::modulus]
            at = 0, place, remainder
            assert found.count[at] == columns.size
            assert found.rows[at] == (rows if columns.size else 0)
            assert np.isclose(found.total[at], columns.sum(), atol=1e-9)
            assert np.isclose(found.squares[at], np.square(columns.sum(axis=1)).sum(), atol=1e-9)


def halves(random: np.random.Generator, dtype: DTypeName) -> Array:
    """Numbers of both signs, every fourth of them halfway between two values of the dtype."""
    bits = 10 if dtype == "float16" else 23
    steps = random.integers(2**bits, 2 ** (bits + 1) - 1, (ROWS, WIDTH))
    signs = random.choice([-1.0, 1.0], steps.shape)
    return signs * (steps + random.choice([0.0, 0.0, 0.0, 0.5], steps.shape)) / 2.0**bits


def of_family(got: Array, expected: Array, values: AnyFamily, dtype: DTypeName) -> MeasuredPiece:
    one = piece(got, expected)
    case = one.case.model_copy(update={"values": values, "dtype": dtype})
    return one._replace(case=case)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("values", ["normal", "large"])
@pytest.mark.parametrize("way", ["away", "up"])
def test_ties_that_all_go_one_way_are_found(dtype: DTypeName, values: AnyFamily, way: str) -> None:
    kernel, baseline, both_ways = ColumnBias(), ColumnBias(), ColumnBias()
    random = np.random.default_rng(8)
    expected = halves(random, dtype)
    even, unit = rounded(expected, dtype), 2.0 ** (-10 if dtype == "float16" else -23)
    signs = np.sign(expected) if way == "away" else 1.0
    one_way = np.where(even == expected, even, expected + signs * unit / 2)
    chance = np.where(
        even == expected, even, expected + random.choice([-1, 1], even.shape) * unit / 2
    )
    kernel.add(of_family(one_way, expected, values, dtype))
    both_ways.add(of_family(chance, expected, values, dtype))
    baseline.add(of_family(even, expected, values, dtype))
    found = kernel.beside(baseline)
    assert found is not None and "round to nearest even" in found.note
    assert both_ways.beside(baseline) is None
