"""docs/results.md from transcripts of live runs and documents of measurements."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import geometric_mean

import pytest

from astra_chat.tools.recordings.reading import read_recorded
from astra_vgpu.ground.errors import BadInput
from lab.baselines.evidence import read as read_evidence
from lab.live_results import document
from lab.live_runs import load
from lab.paper_method import read
from tests.recorded_files import BASELINES, EXAMPLES, LIVE, TODAY, live_runs

ROOT = Path(__file__).resolve().parents[2]
TEAM, SINGLE = LIVE / "silu_and_mul.jsonl", LIVE / "silu_and_mul-single.jsonl"
MEASURED = EXAMPLES / "h200/silu_and_mul-paper.json"


@pytest.mark.second_tier
def test_the_document_in_the_repository_is_made_from_its_transcripts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    timed = [EXAMPLES / gpu / "paper-method.json" for gpu in ("h200", "h100")]
    runs = load(live_runs())
    known = [read_evidence(EXAMPLES / name) for name in (*BASELINES, *TODAY)]
    text = document(runs, [read(path) for path in timed], known)
    assert Path("docs/results.md").read_text().strip() == text.strip()


def rows_of(text: str) -> list[list[str]]:
    lines = (line for line in text.splitlines() if line.startswith("| "))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_each_arm_stands_beside_the_papers() -> None:
    rows = rows_of(document(load([TEAM, SINGLE])))
    arms = [f"from `{start}`, {arm}" for start in ("paper", "sglang") for arm in ("team", "single")]
    assert rows[0][3:] == arms
    assert rows[2] == ["silu_and_mul", "1.46", "1.48", "", "", "1.51", "1.52"]
    each = {row[0].partition(":")[0]: row for row in rows[5:]}
    team = each["silu_and_mul, team"]
    assert team[1:6] == ["`sglang`", "4", "4, 4", "13, 0", "6"]
    assert team[8:] == [
        "1.46, 1.50, 1.50, 1.51",
        "estimated 1.51 (1.11 to 2.06)",
        "",
        "the profiler",
    ]
    assert each["silu_and_mul, single"][2] == "3"


def test_repeats_of_an_arm_have_median_and_range(tmp_path: Path) -> None:
    again = tmp_path / "again.jsonl"
    again.write_bytes(read_recorded(TEAM))
    rows = rows_of(document(load([TEAM, again])))
    assert rows[2][5] == "1.51 (1.51 to 1.51, 2 runs)"


def test_a_winner_measured_later_stands_in_a_table_of_its_own(tmp_path: Path) -> None:
    winner = load([TEAM])[0].summary.best
    assert winner is not None
    found = json.loads(read_recorded(MEASURED))
    found["evaluation"]["candidate"] = winner.candidate
    file = tmp_path / "winner.json"
    file.write_text(json.dumps(found))
    text = document(load([TEAM, SINGLE, file]))
    ratio = found["evaluation"]["outcome"]["ratio"]
    measured, estimated = text.split("## Estimated for H200 by the virtual GPU")
    assert "## Measured on NVIDIA H200" in measured
    assert rows_of(measured)[2][5:] == [f"{ratio:.2f}", ""]
    assert f"slower: {ratio:.3f} on H200, slowest case" in estimated


def test_what_is_no_live_run_or_no_winner_is_refused() -> None:
    with pytest.raises(BadInput, match="no live model answered"):
        load([ROOT / "transcripts/examples/virtual/silu_and_mul.jsonl.xz"])
    with pytest.raises(BadInput, match="4047a7a0ece7 is not a winner of these runs"):
        load([TEAM, MEASURED])


def test_the_papers_timing_has_a_table_of_its_own() -> None:
    """Winners over the paper's start, whatever the run began with: here with the times of the
    scripted run's winner."""
    runs = load([TEAM, SINGLE])
    winner = runs[0].summary.best
    assert winner is not None
    method = read(EXAMPLES / "h200/paper-method.json")
    mine = [one for one in method.times if one.task == "silu_and_mul"]
    times = [
        one.model_copy(update={"content": winner.candidate}) if one.kernel == "best" else one
        for one in mine
    ]
    text = document(runs, [method.model_copy(update={"times": tuple(times)})])
    _, found = text.split("## With the paper's timing, on NVIDIA H200")
    paper, best = ([t.mean_us for t in mine if t.kernel == name] for name in ("paper", "best"))
    ratio = geometric_mean(start / end for start, end in zip(paper, best, strict=True))
    assert rows_of(found)[2] == ["silu_and_mul", "1.46", "1.48", "", "", f"{ratio:.2f}", ""]
    assert "## With the paper's timing" not in document(runs)
