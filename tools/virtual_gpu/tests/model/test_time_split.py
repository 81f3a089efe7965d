"""What an estimated time is made of: the parts add up, and go to what costs them."""

from __future__ import annotations

import pytest

from astra_vgpu.model.constants import FITTED
from astra_vgpu.model.time_split import PARTS, Span, parts_of_norm, time_split

OVERLAPPING = {"sm": 2.0, "dram": 1.0, "l2": 0.5, "atomics": 0.0, "dispatch": 0.2}


def test_the_parts_of_a_norm_add_up_to_it() -> None:
    parts = parts_of_norm(2.0, {"a": 3.0, "b": 4.0, "c": 0.0})
    assert sum(parts.values()) == pytest.approx(5.0)
    assert parts == pytest.approx({"a": 1.8, "b": 3.2, "c": 0.0})
    assert parts_of_norm(3.0, {"a": 0.0, "b": 0.0}) == {"a": 0.0, "b": 0.0}


def split(units: dict[str, float], **overlapping: float) -> dict[str, float]:
    return time_split(
        fixed_us=1.0,
        first=Span(waits=0.3, chain=0.1),
        warp=Span(waits=2.0, chain=1.0),
        start_share=0.25,
        units=units,
        overlapping={**OVERLAPPING, **overlapping},
        constants=FITTED,
    )


def test_all_parts_are_named_and_a_first_round_is_not_overlapped() -> None:
    parts = split({"issue": 0.5, "lsu": 0.1})
    assert parts.keys() == PARTS.keys() and min(parts.values()) > 0
    whole = sum(parts_of_norm(FITTED.overlap, OVERLAPPING).values())
    assert sum(parts.values()) == pytest.approx(1.0 + 0.4 + whole)


def test_a_unit_that_moves_bytes_counts_as_bytes() -> None:
    computing, moving = split({"issue": 2.0, "lsu": 0.1}), split({"issue": 0.1, "lsu": 2.0})
    assert moving["bytes"] > computing["bytes"]
    assert moving["instructions"] < computing["instructions"]
    assert sum(moving.values()) == pytest.approx(sum(computing.values()))


def test_atomics_are_waits_and_dispatch_is_the_start_of_blocks() -> None:
    waiting, starting = split({"issue": 0.5}, atomics=5.0), split({"issue": 0.5}, dispatch=5.0)
    assert max(waiting, key=lambda part: waiting[part]) == "waits"
    assert max(starting, key=lambda part: starting[part]) == "block_start"
