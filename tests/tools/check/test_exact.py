"""Exact comparison: integers, and floats that are copies."""

from __future__ import annotations

import numpy as np
import pytest

from astra_chat.tools.check.kinds import compare_exact


def good(got: list[float], expected: list[float], kind: type = np.int64) -> list[bool]:
    found: list[bool] = compare_exact(np.array(got, kind), np.array(expected, kind)).good.tolist()
    return found


def test_integers_are_equal_to_the_last_bit() -> None:
    large = 2**63 - 1
    assert good([1, -5, large, large - 1], [1, -5, large, large]) == [True, True, True, False]


@pytest.mark.parametrize(
    ("got", "expected", "right"),
    [
        (0.5, 0.5, True),
        (0.5, 0.5 + 2**-52, False),
        (0.0, -0.0, False),
        (np.nan, np.nan, True),
        (np.nan, 1.0, False),
        (1.0, np.nan, False),
        (np.inf, np.inf, True),
        (np.inf, -np.inf, False),
    ],
)
def test_floats_are_copies(got: float, expected: float, right: bool) -> None:
    assert good([got], [expected], np.float64) == [right]


def test_a_difference_is_beyond_every_share() -> None:
    found = compare_exact(np.array([1, 2]), np.array([1, 3]))
    assert found.share.tolist() == [0, np.inf] and found.off is None
