"""What the page shows of one run follows from its transcript, also where that was forged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_chat.report.run_page import RunPage, run_page
from astra_chat.transcript.reader import read
from tests.chat_samples import write_transcript
from tests.recorded_files import EXAMPLES

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def measured() -> RunPage:
    return run_page(read(EXAMPLES / "h200/merge_state_v2.jsonl"), "run1")


@pytest.mark.second_tier
def test_a_measured_run(measured: RunPage) -> None:
    assert measured.basis == "measured" and measured.where == "measured on NVIDIA H200"
    assert measured.over and measured.left_out == []
    assert [name for name, drawing in measured.drawings.items() if drawing is None] == ["tokens"]
    assert sum(count for _, count in measured.outcomes) == len(measured.candidates) == 6
    assert len(measured.errors) < 6, "one did not build"
    assert any(error.correct is None for error in measured.errors), "one is wrong"
    ratios = [gain.ratio for gain in measured.gains]
    assert ratios == sorted(ratios, reverse=True) and ratios[0] > 1.1
    assert any("merge" in line for line in measured.winner)
    names = [name for name, _ in measured.environment]
    assert {"started (UTC)", "device", "task", "options"} <= set(names)


def test_a_task_that_cannot_be_read_costs_the_roofline_only(tmp_path: Path) -> None:
    page = run_page(read(write_transcript(tmp_path / "t.jsonl")), "run1")
    assert page.drawings["roofline"] is None and page.drawings["cases"] is not None
    assert page.left_out == [
        "the roofline, because the recorded task does not state flops and bytes"
    ]
    assert page.basis == "estimated" and page.winner


@pytest.mark.parametrize("value", ["0.0", "1e16"])
def test_forged_times(tmp_path: Path, value: str) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    text = path.read_text()
    assert '"baseline_us":2.0' in text
    path.write_text(text.replace('"baseline_us":2.0', f'"baseline_us":{value}'))
    page = run_page(read(path), "run1")
    assert (page.drawings["cases"] is None) == (value == "0.0")
    assert ("because their times are impossible" in " ".join(page.left_out)) == (value == "0.0")


@pytest.mark.second_tier
def test_a_torn_line_is_said(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    path.write_text(path.read_text() + '{"v":2,')
    assert "cut off" in run_page(read(path), "run1").left_out[0]


def test_events_of_a_newer_astra_are_named(tmp_path: Path) -> None:
    """Turns behind an unknown event keep their numbers."""
    path = write_transcript(tmp_path / "t.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    at = next(n for n, line in enumerate(lines) if line["turn"] == 2)
    new = {**lines[at], "event": {"kind": "vote", "for": "<b>"}}
    for line in lines[at:]:
        line["seq"] += 1
        line["turn"] += 1
    path.write_text("".join(json.dumps(one) + "\n" for one in [*lines[:at], new, *lines[at:]]))
    page = run_page(read(path), "run1")
    assert page.left_out[0] == "1 event of kinds unknown to this version: vote"
    turns = {turn.number: turn.speaker for turn in page.texts.turns}
    assert 2 not in turns and turns[page.rounds[0].turn] == "planner"
    assert any(
        "unknown to this version: vote" in words for t in page.texts.turns for words in t.before
    )
