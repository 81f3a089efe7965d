"""What wrong results have in common is said where it is there, and not where it is not."""

from __future__ import annotations

import numpy as np
import pytest

from astra_chat.tools.check.error_pattern import error_pattern
from astra_chat.tools.check.floats import Array

EXPECTED = np.random.default_rng(1).uniform(0.001, 1.0, 96) * np.tile([1.0, -1.0], 48)
WIDTH = 32
FLAT = np.arange(96)


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (EXPECTED * np.repeat([8 / 7, 1.1, 0.9], 32), "off by a single factor, such as 1.143"),
        (
            (EXPECTED * 8 / 7).astype(np.float16).astype(np.float64),
            ("by a single factor, such as 1.14"),
        ),
        (EXPECTED * (1 + np.abs(EXPECTED)), "all of them are too large"),
        (EXPECTED * (1 - np.abs(EXPECTED) / 2), "all of them are too small"),
        (-EXPECTED, "off by a single factor, such as -1"),
        (EXPECTED + np.tile([0.5, 0.5, -0.5, -0.5], 24), ""),
        (np.where(np.arange(96) < 90, np.nan, EXPECTED * 2), ""),
    ],
)
def test_a_pattern_is_said(got: Array, said: str) -> None:
    found = error_pattern(got, EXPECTED, FLAT, WIDTH)
    assert said in found and bool(said) == bool(found)


def test_the_order_of_the_results_does_not_matter() -> None:
    """The worst may come first."""
    got = EXPECTED * np.repeat([8 / 7, 1.1, 0.9], 32)
    mixed = np.argsort(-np.abs(got - EXPECTED))
    found = error_pattern(got[mixed], EXPECTED[mixed], FLAT[mixed], WIDTH)
    assert found == error_pattern(got, EXPECTED, FLAT, WIDTH) != ""


def test_columns_in_common_are_said() -> None:
    odd = FLAT % 2 == 1
    found = error_pattern(EXPECTED[odd] * 1.003, EXPECTED[odd], FLAT[odd], WIDTH)
    assert "all of them are in columns whose index is 1 modulo 2" in found
    few = np.flatnonzero(odd)[:8]
    assert "modulo" not in error_pattern(EXPECTED[few] * 2, EXPECTED[few], FLAT[few], WIDTH)
