"""Floats within a tolerance, of dtypes that saturate: the others are in test_compare.py."""

from __future__ import annotations

import numpy as np
import pytest

from astra_chat.tools.check.kinds import compare_close
from astra_chat.tools.task.folder import Tolerance
from astra_chat.tools.types import DTypeName

TOLERANCE = Tolerance(rtol=0.07, atol=0.01)
NAN, INF = np.nan, np.inf


def good(got: float, expected: float, dtype: DTypeName) -> bool:
    return bool(compare_close(np.array([got]), np.array([expected]), TOLERANCE, dtype).good[0])


@pytest.mark.parametrize(("dtype", "largest"), [("float8_e4m3fn", 448.0), ("float8_e5m2", 57344.0)])
def test_what_is_too_large_may_stop_at_the_largest_number(dtype: DTypeName, largest: float) -> None:
    assert good(largest, 1e6, dtype) and good(largest, INF, dtype)
    assert good(-largest, -INF, dtype) and not good(largest, -INF, dtype)
    assert not good(largest, largest / 2, dtype) and not good(NAN, INF, dtype)


def test_infinity_is_as_good_where_the_dtype_has_it() -> None:
    assert good(INF, 1e6, "float8_e5m2") and not good(INF, 3.0, "float8_e5m2")


def test_one_step_of_a_coarse_dtype_may_be_tolerated() -> None:
    assert good(1.0625, 1.0, "float8_e4m3fn") and not good(1.125, 1.0, "float8_e4m3fn")


@pytest.mark.parametrize("atol", [0.0, 0.01])
def test_what_else_is_in_the_array_changes_nothing(atol: float) -> None:
    """Arrays of finite numbers alone are compared by a shorter way."""
    rng = np.random.default_rng(3)
    expected = np.concatenate([rng.normal(size=500), np.zeros(9)])
    got = np.concatenate([expected[:250], expected[250:] + 0.1 * rng.normal(size=259)])
    tolerance = Tolerance(rtol=0.07, atol=atol)
    alone = compare_close(got, expected, tolerance, "float16")
    beside = compare_close(
        np.append(got, NAN), np.append(expected, NAN), tolerance, "float16"
    )  # the longer way
    assert 100 < int(alone.good.sum()) < len(got) and beside.good[-1]
    np.testing.assert_array_equal(alone.good, beside.good[:-1])
    np.testing.assert_array_equal(alone.share, beside.share[:-1])
    np.testing.assert_array_equal(alone.allowed, beside.allowed[:-1])
