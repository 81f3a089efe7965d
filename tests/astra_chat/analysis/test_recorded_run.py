"""load_transcript: typed rows and tables of the committed runs and of a run with failures."""

from __future__ import annotations

from pathlib import Path

import pytest

import astra_chat
from astra_chat import load_transcript
from astra_chat.analysis.recorded_run import RecordedRun, frame
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import baseline_turns, write_transcript
from tests.recorded_files import EXAMPLES, VIRTUAL


@pytest.fixture(scope="module")
def measured() -> RecordedRun:
    return load_transcript(EXAMPLES / "h200" / "merge_state_v2.jsonl")


def test_it_is_what_the_package_offers() -> None:
    assert "load_transcript" in astra_chat.__all__


def test_a_run_has_its_summary_its_chat_and_its_sources(measured: RecordedRun) -> None:
    best = measured.summary.best
    assert best is not None and best.candidate in measured.sources
    assert len(measured.chat) == len(measured.turns) == measured.transcript.records[-1].turn
    assert measured.incomplete is None and measured.name == measured.turns[0].run


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        load_transcript(tmp_path / "none.jsonl")


def test_tables_of_several_runs_are_one_frame(measured: RecordedRun) -> None:
    virtual = load_transcript(VIRTUAL)
    runs = [measured, virtual]
    evaluations = frame(runs, "evaluations")
    assert len(evaluations) == len(measured.evaluations) + len(virtual.evaluations)
    assert set(evaluations["basis"].dropna()) == {"measured", "estimated"}
    cases = frame(runs, "cases")
    assert len(cases) == sum(len(row.cases) for run in runs for row in run.evaluations)
    assert (cases["case_ratio"] - cases["baseline_us"] / cases["median_us"]).abs().max() < 0.05
    assert len(frame(runs, "turns")) == sum(len(run.turns) for run in runs)


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    run = load_transcript(write_transcript(tmp_path / "t.jsonl", baseline_turns()[:1]))
    assert run.frame("rounds").empty and "gain" in run.frame("rounds").columns
    assert run.frame("cases").empty and "case_ratio" in run.frame("cases").columns
