"""Bars say what the figures say, and an estimate is no filled bar."""

from __future__ import annotations

from astra_chat.report.case_plots import MOST_CASES, errors, roofline, times_by_case
from astra_vgpu.ground.gpu_specs import spec
from tests.astra_chat.report.samples import measured, timing
from tests.chat_samples import timed


def test_times() -> None:
    drawing = times_by_case("r", timing(measured(), measured(10.0, 9.0)), True)
    assert drawing.basis == "measured" and "4 us → 2 us" in drawing.svg
    assert "best 2.00 us, 2.00x</title>" in drawing.svg and "limit 1.00 us" in drawing.svg
    alone = times_by_case("r", timing(measured()), False)
    assert "best candidate" not in alone.svg and "4 us" in alone.svg


def test_estimated_bars_are_hatched() -> None:
    assert "<pattern" in times_by_case("r", timing(*timed(2.0).cases), True).svg
    assert "<pattern" not in times_by_case("r", timing(measured()), True).svg


def test_many_cases_are_cut_and_that_is_said() -> None:
    drawing = times_by_case("r", timing(*[measured()] * (MOST_CASES + 2)), False)
    assert f"first {MOST_CASES} of {MOST_CASES + 2}" in drawing.caption


def test_roofline() -> None:
    drawing = roofline("r", timing(measured()), [(4e6, 1e6)], spec("h200"), True)
    assert drawing is not None and "NVIDIA H200" in drawing.title
    assert "baseline: 1,000 Gflop/s" in drawing.svg and "best: 2,000 Gflop/s" in drawing.svg
    assert roofline("r", timing(measured()), [(0.0, 1e6)], spec("h200"), True) is None


def test_errors() -> None:
    drawing = errors("r", [("abc", "wrong", None), ("def", "accepted", 0.486)])
    assert drawing is not None and drawing.basis is None
    assert "def: 48.6 % of the tolerance" in drawing.svg and "abc: wrong" in drawing.svg
    assert errors("r", []) is None
