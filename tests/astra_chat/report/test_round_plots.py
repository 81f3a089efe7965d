"""Each result has a mark of its own, a tie another than a gain, an estimate another than a
measurement."""

from __future__ import annotations

from pathlib import Path

from astra_chat.report.round_plots import CONFIRMED, FAILED, predictions, speed_by_round
from astra_chat.transcript.reader import read
from astra_chat.transcript.summary import summarize
from tests.astra_chat.report.samples import a_round, attempt, speed, with_rounds

ROOT = Path(__file__).parents[3]
RECORDED = summarize(read(ROOT / "transcripts/examples/virtual/silu_and_mul.jsonl.xz").records)


def test_every_candidate_is_marked_with_its_result() -> None:
    best = speed(1, 1.2)
    tried = attempt("accepted", best), attempt("tie", speed(2, 1.0)), attempt("wrong", None)
    summary = with_rounds(RECORDED, a_round(1, best, *tried), a_round(2, best))
    drawing = speed_by_round("r", summary, "measured")
    assert drawing is not None
    for label in ("faster", "tie", FAILED, "best so far", "baseline"):
        assert f">{label}</text>" in drawing.svg
    assert CONFIRMED not in drawing.svg and ">slower<" not in drawing.svg
    assert "<title>round 1, 000000000001: faster 1.20x (1.08 to 1.32)</title>" in drawing.svg
    assert "<title>round 1, ffffffffffff: wrong</title>" in drawing.svg


def test_of_a_recorded_run() -> None:
    drawing = speed_by_round("r", RECORDED, "estimated")
    assert drawing is not None and f">{CONFIRMED}</text>" in drawing.svg
    found = predictions("r", RECORDED, "estimated")
    assert found is not None and "5 of 5 plans" in found.caption
    assert found.svg.count("<title>round ") == 5


def test_estimated_looks_different() -> None:
    summary = with_rounds(RECORDED, a_round(1, speed(1, 1.2), attempt("accepted", speed(1, 1.2))))
    measured, estimated = (
        speed_by_round("r", summary, basis) for basis in ("measured", "estimated")
    )  # type: ignore[arg-type]
    assert measured and estimated and measured.svg != estimated.svg
    assert "stroke-dasharray" in estimated.svg and "stroke-dasharray" not in measured.svg


def test_nothing_to_draw() -> None:
    assert speed_by_round("r", with_rounds(RECORDED), "measured") is None
    assert predictions("r", with_rounds(RECORDED, a_round(1, None)), "measured") is None
