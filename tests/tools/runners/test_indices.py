"""Drawn indices are legal, of their kind, and not all alike."""

from __future__ import annotations

import pytest
import torch

from astra_chat.tools.case import ONE_PLACE, SEED_BITS, USUAL_SEED_BITS
from astra_chat.tools.runners.indices import SHUFFLED, draw_indices
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.types import Case

ROWS, COLUMNS = 6, 40


def drawn(
    seed: int,
    shape: tuple[int, ...] = (ROWS, COLUMNS),
    case_seed: int = 0,
    values: str = "normal",
    **index: object,
) -> torch.Tensor:
    names = [str(extent) for extent in shape]
    arg = Arg.model_validate(
        {"name": "i", "dtype": "int32", "shape": names, "access": "read", "index": index}
    )
    case = Case(dims={}, dtype="float16", seed=case_seed, values=values)
    found = draw_indices(arg, case, torch.Generator().manual_seed(seed))
    assert found.dtype == torch.int32 and tuple(found.shape) == shape
    return found.long()


KINDS = ["any", "sorted", "permutation", "distinct", "positions", "slots", "lengths"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_legal(kind: str) -> None:
    seen = set[int]()
    for seed in range(40):
        found = drawn(seed, **{"from": 7, "below": 7 + 300, "kind": kind})
        assert 7 <= int(found.min()) and int(found.max()) < 307
        seen |= set(found.flatten().tolist())
        rows = found.tolist()
        if kind == "sorted":
            assert all(row == sorted(row) for row in rows)
        if kind == "permutation":
            assert all(sorted(row) == list(range(7, 7 + COLUMNS)) for row in rows)
        if kind == "distinct":
            assert all(len(set(row)) == COLUMNS for row in rows)
        if kind == "slots":
            assert len(found.unique()) == ROWS * COLUMNS
        if kind == "positions":
            steps = found.diff(dim=-1)
            assert float((steps == 1).float().mean()) > 0.5
    assert len(seen) > (30 if kind == "permutation" else 250)


@pytest.mark.parametrize("kind", ["any", "sorted"])
def test_ends_are_met_and_places_are_crowded_but_not_while_timed(kind: str) -> None:
    timed, others, far = (
        [drawn(seed, below=1000, kind=kind, **more) for seed in range(30)]
        for more in ({}, {"values": "special"}, {"case_seed": 2**USUAL_SEED_BITS + 1})
    )
    for many in (timed, others):
        assert all({0, 999} <= set(one.flatten().tolist()) for one in many)
    assert all(len(one.unique()) > 150 for one in timed)
    assert all(any(len(one.unique()) <= 5 for one in many) for many in (others, far))


def test_rows_of_distinct_numbers_may_share_all_of_them_but_not_while_timed() -> None:
    timed, others = (
        [drawn(seed, below=1000, kind="distinct", **more) for seed in range(30)]
        for more in ({}, {"values": "special"})
    )
    assert all(len(one.unique()) > COLUMNS for one in timed)
    assert any(len(one.unique()) == COLUMNS for one in others)
    assert all(len(set(row)) == COLUMNS for one in others for row in one.tolist())


def test_no_entry_has_its_share() -> None:
    found = drawn(1, below=1000, kind="slots", none=-1, none_share=0.5)
    share = float((found == -1).float().mean())
    kept = found[found >= 0]
    assert 0.3 < share < 0.7 and len(kept.unique()) == len(kept)
    assert drawn(1, below=0, none=-1).unique().tolist() == [-1]


def test_slots_of_a_long_range() -> None:
    found = drawn(3, below=2 * SHUFFLED, kind="slots")
    assert len(found.unique()) == ROWS * COLUMNS and int(found.max()) > SHUFFLED


@pytest.mark.parametrize("kind", KINDS[:-1])
@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0), (1,), (1, 1)])
def test_few_or_no_entries(kind: str, shape: tuple[int, ...]) -> None:
    assert drawn(0, shape, below=9, kind=kind).shape == shape


def test_a_drawn_case_may_have_all_entries_or_none_or_one_place() -> None:
    """The share of a timed case, whose seed is small, is always the contract's."""
    unusual = [
        drawn(1, case_seed=2**USUAL_SEED_BITS + seed, below=1000, none=-1, none_share=0.1)
        for seed in range(1, 60)
    ]
    shares = {round(float((one == -1).float().mean()), 1) for one in unusual}
    assert shares >= {0.0, 0.1, 0.5, 0.9, 1.0}
    assert any(len(one[one >= 0].unique()) == 1 and (one >= 0).sum() > 9 for one in unusual)
    usual = [drawn(1, case_seed=s, below=1000, none=-1, none_share=0.1) for s in range(20)]
    assert {round(float((one == -1).float().mean()), 1) for one in usual} == {0.1}


def test_a_further_seed_of_a_case_is_as_usual_as_its_own() -> None:
    far = [drawn(1, case_seed=5 + (k << SEED_BITS), below=9, none=-1) for k in range(1, 9)]
    assert all(0 < int((one == -1).sum()) < ROWS * COLUMNS for one in far)


def test_slots_of_a_drawn_case_may_lie_in_runs() -> None:
    """In order or not; all differ and lie in their range, also where there is little room."""
    seen = set[tuple[bool, bool]]()
    for below in (240, 300, 1000):
        for seed in range(1, 40):
            case = 2**USUAL_SEED_BITS + seed
            found = drawn(seed, case_seed=case, kind="slots", **{"from": 7, "below": 7 + below})
            flat = found.flatten()
            assert len(flat.unique()) == len(flat) and 7 <= flat.min() <= flat.max() < 7 + below
            steps = flat.diff()
            seen.add((float((steps == 1).float().mean()) > 0.7, bool((steps > 0).all())))
    assert seen == {(False, False), (True, False), (True, True)}
    usual = [drawn(seed, kind="slots", below=1000).flatten().diff() for seed in range(20)]
    assert not any((steps == 1).float().mean() > 0.1 for steps in usual)


def test_positions_of_a_drawn_case_may_all_be_the_same() -> None:
    cases = [2**USUAL_SEED_BITS + seed for seed in range(1, 40)]
    drawn_ones = [drawn(3, case_seed=case, kind="positions", below=1000) for case in cases]
    same = [one for one in drawn_ones if len(one.unique()) == 1]
    assert 0 < len(same) < len(cases) / 2 and any(int(one.max()) > 0 for one in same)


def test_lengths_are_all_least_all_greatest_or_one_long_among_short() -> None:
    seen = set[str]()
    for seed in range(60):
        rare = (1 << SEED_BITS) - 1 - seed
        found = drawn(seed, (40,), rare, **{"from": 0, "below": 101, "kind": "lengths"})
        values = found.tolist()
        assert 0 <= min(values) and max(values) <= 100
        short = sum(value < 8 for value in values)
        seen |= {"least"} if set(values) == {0} else set()
        seen |= {"greatest"} if set(values) == {100} else set()
        seen |= {"one long"} if short == 39 and max(values) == 100 else set()
        seen |= {"often"} if values.count(0) > 5 and values.count(100) > 5 else set()
        seen |= {"equal"} if len(set(values)) == 1 and 0 < values[0] < 100 else set()
    assert seen == {"least", "greatest", "one long", "often", "equal"}


def test_lengths_of_timed_cases_are_spread() -> None:
    found = drawn(3, (400,), **{"from": 0, "below": 101, "kind": "lengths"})
    assert len(found.unique()) > 60


def test_all_entries_of_a_case_of_one_place_are_equal_or_none() -> None:
    found = drawn(1, case_seed=ONE_PLACE | 2**47, below=300, none=-1)
    assert len(found.unique()) == 2 and (found == -1).any()
    assert len(drawn(1, below=300).unique()) > 2
