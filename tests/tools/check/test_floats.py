"""Dtypes as numbers: against NumPy's own rounding and spacing, and PyTorch's bfloat16."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from astra_chat.tools.check.floats import OVERFLOW, as_float, rounded, ulp
from astra_chat.tools.types import DTypeName

WIDE = np.random.default_rng(7).standard_normal(4000) * 10.0 ** np.linspace(-44, 38, 4000)


@pytest.mark.parametrize(("dtype", "storage"), [("float16", np.float16), ("float32", np.float32)])
def test_an_ulp_is_the_spacing(dtype: DTypeName, storage: type) -> None:
    exact = rounded(WIDE, dtype)
    exact = exact[np.isfinite(exact)]
    assert np.array_equal(ulp(exact, dtype), np.spacing(np.abs(exact).astype(storage)))


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
