"""Covering arrays: every combination of levels has a row, rows are few, and costs are kept."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import combinations, product

import pytest

from astra_chat.tools.check.covering_cases import OPEN, Levels, Row, covering_array, levels_of

SIZES = [(4,) * 15, (3, 2, 4, 2, 3, 5, 8, 8), (2, 2), (5,), (1, 1, 1, 1)]


def every(sizes: Sequence[int], strength: int) -> set[Levels]:
    return {
        tuple(zip(factors, levels, strict=True))
        for factors in combinations(range(len(sizes)), strength)
        for levels in product(*(range(sizes[factor]) for factor in factors))
    }


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("strength", [2, 3])
def test_every_combination_has_a_row(sizes: tuple[int, ...], strength: int) -> None:
    array = covering_array(sizes, strength, random.Random(7))
    strength = min(strength, len(sizes))
    assert {found for row in array.rows for found in levels_of(row, strength)} == every(
        sizes, strength
    )
    assert not array.impossible and not array.too_large


def test_rows_are_few() -> None:
    """At least the product of the two, or three, largest factors; about the published sizes of AETG
    for fifteen factors of four levels."""
    assert len(covering_array((4,) * 15, 2, random.Random(1)).rows) < 48
    assert len(covering_array((4,) * 15, 3, random.Random(1)).rows) < 260


def test_the_rows_follow_from_the_seed() -> None:
    one, same, other = (covering_array((3, 4, 5, 2), 2, random.Random(s)).rows for s in (1, 1, 2))
    assert one == same != other


def cost(row: Row) -> float:
    """Levels 2 of the first two factors exclude each other; the third's are bytes."""
    if row[0] == row[1] == 2:
        return math.inf
    return 10.0 ** max(0, row[2]) * (100 if row[1] == 3 else 1)


def test_constraints_are_kept_and_what_is_left_out_is_named() -> None:
    array = covering_array((3, 4, 3, 2), 2, random.Random(3), cost, usual=1.0, most=100.0)
    for row in array.rows:
        assert cost(row) <= 100
    assert array.impossible == 1
    assert set(array.too_large) == {((1, 3), (2, 1)), ((1, 3), (2, 2))}
    found = {one for row in array.rows for one in levels_of(row, 2)}
    assert every((3, 4, 3, 2), 2) - found == {*array.too_large, ((0, 2), (1, 2))}


def test_only_rows_of_a_dear_combination_are_dear() -> None:
    array = covering_array((3, 4, 3, 2), 2, random.Random(3), cost, usual=1.0, most=1000.0)
    dear = [row for row in array.rows if cost(row) > 1]
    assert all(row[2] > 0 or row[1] == 3 for row in dear)
    assert len(dear) < len(array.rows)


def test_a_factor_of_which_no_level_fits_stays_open() -> None:
    def third_is_impossible(row: Row) -> float:
        return math.inf if row[2] != OPEN else 0.0

    array = covering_array((2, 2, 2), 2, random.Random(0), third_is_impossible)
    assert {row[2] for row in array.rows} == {OPEN} and array.impossible == 8
