"""Dtypes as numbers: against NumPy's own rounding and spacing, and PyTorch's bfloat16."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from astra_chat.tools.check.floats import (
    OVERFLOW,
    SATURATION,
    as_bytes,
    as_float,
    as_int,
    beside_nearest,
    half_ulp,
    rounded,
    steps,
    ulp,
)
from astra_chat.tools.types import DTypeName

WIDE = np.random.default_rng(7).standard_normal(4000) * 10.0 ** np.linspace(-44, 38, 4000)


@pytest.mark.parametrize(("dtype", "storage"), [("float16", np.float16), ("float32", np.float32)])
def test_an_ulp_is_the_spacing(dtype: DTypeName, storage: type) -> None:
    exact = rounded(WIDE, dtype)
    exact = exact[np.isfinite(exact)]
    assert np.array_equal(ulp(exact, dtype), np.spacing(np.abs(exact).astype(storage)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e4m3fn"])
def test_what_is_not_the_nearest_value_is_known_without_rounding(dtype: DTypeName) -> None:
    """The nearest value, those beside it, and others; of ties, of tiny numbers, and where results
    overflow."""
    nearest = rounded(WIDE, dtype)
    nearest = nearest[np.isfinite(nearest)]
    ties = nearest + np.repeat([1, -1], -(-len(nearest) // 2))[: len(nearest)] * half_ulp(
        nearest, dtype
    )
    ends = np.array([65504.0, 65519.9, 65520.0, 65530.0, 448.0, 460.0, 3.39e38, 3.4e38, 0.0, -0.0])
    expected = np.concatenate([nearest, nearest * (1 + 2.0**-13), ties, ends, -ends])
    units = ulp(expected, dtype)
    for steps_off in (0, 1, -1, 7):
        got = rounded(rounded(expected, dtype) + steps_off * units, dtype)
        beside = beside_nearest(got, expected, dtype)
        assert np.array_equal(beside, got != rounded(expected, dtype))
        assert beside.any() == (steps_off != 0)
    infinite = np.full(len(expected), np.inf)
    wanted = infinite != rounded(expected, dtype)
    assert np.array_equal(beside_nearest(infinite, expected, dtype), wanted)


def test_bfloat16_is_rounded_to_the_nearest_even() -> None:
    halfway = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, -(1 + 2.0**-8), 2.0**-133 * 1.5, 0.0])
    values = np.concatenate([WIDE, halfway, [np.inf, -np.inf, np.nan, 3.39e38, 3.5e38]])
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    expected = torch.from_numpy(single).to(torch.bfloat16).double().numpy()
    got = rounded(single.astype(float), "bfloat16")
    assert np.array_equal(got, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_overflow_is_where_rounding_gives_infinity(dtype: DTypeName) -> None:
    assert np.isinf(rounded(np.array([OVERFLOW[dtype]]), dtype))
    assert np.isfinite(rounded(np.array([OVERFLOW[dtype] * 0.99]), dtype))


def test_bfloat16_is_widened_exactly() -> None:
    words = np.array([0x3F80, 0xC040, 0x7F80, 0x0001], dtype=np.uint16).view(np.uint8)
    assert as_float(words, "bfloat16").tolist() == [1.0, -3.0, np.inf, 2.0**-133]


DISTANCES = {"float8_e4m3fn": 2 * 126, "float8_e5m2": 2 * 126 - 6, "float8_e8m0fnu": 254}


@pytest.mark.parametrize("dtype", SATURATION)
def test_all_codes_of_an_8_bit_float(dtype: DTypeName) -> None:
    """Against PyTorch's, and back to the same bytes; all NaNs are one."""
    codes = np.arange(256, dtype=np.uint8)
    numbers = as_float(codes, dtype)
    theirs = torch.from_numpy(codes.copy()).view(getattr(torch, dtype)).double().numpy()
    assert np.array_equal(numbers, theirs, equal_nan=True)
    finite = np.isfinite(numbers)
    assert np.array_equal(as_bytes(numbers[finite], dtype), codes[finite])
    assert np.isnan(as_float(as_bytes(np.array([np.nan]), dtype), dtype)).all()
    assert np.array_equal(
        np.diff(steps(np.unique(numbers[finite]), dtype)), np.ones(DISTANCES[dtype])
    )


def test_scales_without_sign_are_rounded_to_powers_of_two() -> None:
    values = np.array([0.0, -3.0, 2.0**-140, 1.0, 1.49, 1.51, 3.1, 2.0**127, 1e39, np.inf])
    wanted = [2.0**-127] * 3 + [1.0, 1.0, 2.0, 4.0] + [2.0**127] * 3
    assert rounded(values, "float8_e8m0fnu").tolist() == wanted
    codes = as_bytes(np.append(values, np.nan), "float8_e8m0fnu")
    assert codes.tolist() == [0, 0, 0, 127, 127, 128, 129, 254, 254, 254, 255]


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_8_bit_floats_are_rounded_to_the_nearest_even_and_saturate(dtype: DTypeName) -> None:
    largest = SATURATION[dtype]
    numbers = np.unique(as_float(np.arange(256, dtype=np.uint8), dtype))
    numbers = numbers[np.isfinite(numbers)]
    values = np.concatenate(
        [numbers, (numbers[1:] + numbers[:-1]) / 2, np.clip(WIDE, -largest, largest)]
    )
    single = torch.from_numpy(values).float()
    expected = single.to(getattr(torch, dtype)).double().numpy()
    assert np.array_equal(rounded(single.double().numpy(), dtype), expected)
    ends = rounded(np.array([1e9, -np.inf, np.nan]), dtype)
    assert ends[:2].tolist() == [largest, -largest] and np.isnan(ends[2])


def test_integers_and_bools() -> None:
    assert as_int(np.array([-3, 2**62], dtype=np.int64).view(np.uint8), "int64").tolist() == [
        -3,
        2**62,
    ]
    assert as_int(np.array([0, 1, 7], dtype=np.uint8), "bool").tolist() == [0, 1, 7]
    assert rounded(np.array([2.5, 3.5, 300.0, -300.0]), "int8").tolist() == [2, 4, 127, -128]
    assert as_bytes(np.array([2.5, -300.0]), "int8").view(np.int8).tolist() == [2, -128]
    assert ulp(np.array([0.0, 100.0]), "int32").tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_bytes_of_floats_are_the_nearest_numbers(dtype: DTypeName) -> None:
    again = as_float(as_bytes(WIDE, dtype), dtype)
    assert np.array_equal(again, rounded(WIDE, dtype))
