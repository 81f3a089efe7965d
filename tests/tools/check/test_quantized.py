"""Codes: the nearest one, or one step beside it; what they mean; whose scale is whose."""

from __future__ import annotations

import numpy as np
import pytest

from astra_chat.tools.check.kinds import (
    compare_codes,
    group_places,
    most_off,
    scale_ratios,
    to_code,
)
from astra_chat.tools.types import DTypeName


def apart(got: list[float], expected: list[float], dtype: DTypeName) -> list[float]:
    """Steps between codes; infinity where they are not good."""
    found = compare_codes(np.array(got), np.array(expected), dtype)
    assert found.off is not None
    assert found.off.tolist() == (found.good & (found.share == 1)).tolist()
    steps: list[float] = np.where(found.good, found.share, np.inf).tolist()
    return steps


def test_neighbouring_codes_are_one_step_apart_whatever_their_distance() -> None:
    inf = float("inf")
    assert apart([448, 416, 384, -416], [448.0] * 3 + [-448.0], "float8_e4m3fn") == [0, 1, inf, 1]
    assert apart([0.0, 2**-9, 2**-8], [0.0] * 3, "float8_e4m3fn") == [0, 1, inf]
    assert apart([-(2**-9), -0.0], [0.0, 0.0], "float8_e4m3fn") == [1, 0]
    assert apart([127, 126, -128], [127, 127, -128.0], "int8") == [0, 1, 0]


def test_what_is_to_be_coded_is_rounded_to_the_nearest_code_first() -> None:
    assert apart([1.0, 1.125], [1.06, 1.06], "float8_e4m3fn") == [0, 1]
    assert apart([3, 4], [3.4, 3.4], "int8") == [0, 1]


def test_beyond_the_range_its_end_is_expected() -> None:
    assert apart([448, 448, -448], [1e9, np.inf, -1e9], "float8_e4m3fn") == [0, 0, 0]
    assert apart([127, -128], [1e9, -1e9], "int8") == [0, 0]
    assert to_code(np.array([1e9, -1e9]), "int8").tolist() == [127, -128]


def test_nan_stands_where_it_is_expected_only() -> None:
    inf = float("inf")
    assert apart([np.nan, 1, np.nan], [np.nan, np.nan, 1.0], "float8_e4m3fn") == [0, inf, inf]


@pytest.mark.parametrize(
    ("share", "count", "most"), [(0.01, 32, 2), (0.01, 10_000, 129), (0, 99, 0)]
)
def test_chance_adds_to_the_share_of_few_codes(share: float, count: int, most: int) -> None:
    assert int(most_off(share, count)) == most


def test_a_code_means_itself_times_its_scale() -> None:
    expected, scales = np.array([0.5, 0.5, 0.25, 0.0]), np.array([0.5, 1.0, 0.25, 3.0])
    assert scale_ratios(scales, expected).tolist() == [1.0, 2.0, 1.0, 0.0]


def test_groups_are_blocks_of_the_shape() -> None:
    flat = np.arange(3 * 5)
    assert group_places(flat, (3, 5), (1, 5)).tolist() == [0] * 5 + [1] * 5 + [2] * 5
    by_two = [0, 0, 1, 1, 2] * 2 + [3, 3, 4, 4, 5]
    assert group_places(flat, (3, 5), (2, 2)).tolist() == by_two
