"""The table at the end: measured and estimated are never mixed up."""

from __future__ import annotations

import io

import pytest

from astra_chat.agents.turns import Turn
from astra_chat.display.console import console
from astra_chat.display.results_table import table
from astra_chat.tools.types import Case, Device, Timed, candidate_id
from astra_chat.transcript.events import Record
from astra_chat.transcript.summary import summarize
from astra_chat.transcript.writer import events_of
from tests.chat_samples import (
    CASE,
    VECTOR,
    WRONG_OUTCOME,
    baseline_turns,
    evaluation,
    header,
    timed,
)
from tests.time_samples import measured_time


def text(turns: list[Turn], device: Device | None = None) -> str:
    out = io.StringIO()
    head = header() if device is None else header().model_copy(update={"device": device})
    stored: set[str] = set()
    events = [head, *(event for turn in turns for event in events_of(turn, stored))]
    records = [Record(run="r", seq=i, t=0, turn=0, event=one) for i, one in enumerate(events)]
    for line in table(summarize(records)):
        console(out).print(line)
    return out.getvalue()


def measured() -> Timed:
    case = measured_time(CASE, ratio_low=1.9, ratio_high=2.1, baseline_event_us=6.0, event_us=4.0)
    return timed(2.0).model_copy(update={"cases": (case,)})


def test_an_estimate() -> None:
    shown = text([*baseline_turns(), Turn("executor", evaluation(VECTOR, timed(1.6)))])
    assert "estimated for NVIDIA H200, L2 cold, over baseline.cu" in shown
    assert "1.44 to 1.76" in shown and "measured" not in shown


def test_a_measurement() -> None:
    device = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")
    shown = text([*baseline_turns(), Turn("executor", evaluation(VECTOR, measured()))], device)
    assert "measured on NVIDIA H200, L2 cold, over baseline.cu" in shown
    assert "weighted: measured 2.00x" in shown and "estimated" not in shown


def test_without_a_faster_candidate_the_baseline_stands_alone() -> None:
    shown = text(baseline_turns())
    assert "baseline" in shown and "ratio" not in shown


def test_without_any_timing_there_is_no_table() -> None:
    assert text(baseline_turns(WRONG_OUTCOME)) == ""


def test_it_is_whole_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    large = {
        "case": Case(dims={"tokens": 8192, "d": 18944}, dtype="bfloat16"),
        "baseline_us": 12345.6,
        "median_us": 12345.6,
        "ratio_high": 10.25,
    }
    case = measured().cases[0].model_copy(update=large)
    found = evaluation(VECTOR, measured().model_copy(update={"cases": (case,)}))
    device = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")
    lines = text([*baseline_turns(), Turn("executor", found)], device).splitlines()
    assert lines[0].endswith(f"best {candidate_id(VECTOR)}"), "its whole name"
    (row,) = (line for line in lines if line.startswith("8192x18944 bfloat16 "))
    assert row.split()[2:] == ["12346", "12346", "2.00x", "1.90", "to", "10.25", "measured", "50"]
    assert len(row) <= 80
