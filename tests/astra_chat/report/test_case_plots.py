"""Bars say what the figures say, and an estimate is no filled bar."""

from __future__ import annotations

from astra_chat.report.case_plots import MOST_CASES, errors, parts_by_case, roofline, times_by_case
from astra_chat.tools.gpu_specs import spec
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


def test_parts_add_up() -> None:
    """Limit, data in the L2, data from memory: of the baseline 1, 2 and 1 us, of the best 1, 0.5
    and 0.5."""
    drawing = parts_by_case("r", timing(measured(warm_us=1.5, baseline_warm_us=3.0)), True)
    assert drawing is not None
    for words in (
        "baseline: physical limit 1.00 us", "baseline: above it, data in the L2 2.00 us",
        "baseline: data from memory 1.00 us", "best: physical limit 1.00 us",
        "best: above it, data in the L2 0.50 us", "best: data from memory 0.50 us",
    ):  # fmt: skip
        assert words in drawing.svg
    assert parts_by_case("r", timing(measured()), True) is None, "not measured warm"
    assert parts_by_case("r", timing(*timed(2.0).cases), True) is None, "estimated"


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
