"""docs/results/: a page a task, from transcripts, measurements and comparisons."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.task.folder import find_task, task_names
from lab.baselines.evidence import Evidence
from lab.baselines.evidence import read as read_evidence
from lab.live_runs import LiveRun, load
from lab.task_pages import floors, page
from tests.recorded_files import BASELINES, EXAMPLES, TODAY

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs/results"


@pytest.fixture(scope="module")
def evidence() -> list[Evidence]:
    return [read_evidence(EXAMPLES / name) for name in (*BASELINES, *TODAY)]


@pytest.fixture(scope="module")
def runs() -> list[LiveRun]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return load([Path("transcripts/recorded.tar.xz/live/*/*")])


@pytest.mark.second_tier
def test_the_pages_in_the_repository_are_made_from_its_files(
    runs: list[LiveRun], evidence: list[Evidence]
) -> None:
    assert sorted(path.stem for path in PAGES.iterdir()) == sorted(task_names())
    for path in PAGES.iterdir():
        assert path.read_text() == page(path.stem, runs, evidence), path


@pytest.mark.parametrize("packed", [True, False])
def test_a_page_of_absolute_paths_names_no_folder_of_this_machine(
    packed: bool, tmp_path: Path, evidence: list[Evidence]
) -> None:
    name = "live/further/rmsnorm-sglang-team-1.jsonl"
    inside = ROOT / "transcripts/recorded.tar.xz" / name
    outside = tmp_path / "own.jsonl"
    outside.write_bytes(read_recorded(inside))
    text = page("rmsnorm", load([inside if packed else outside]), evidence)
    assert str(ROOT) not in text and str(tmp_path) not in text
    shown = inside.relative_to(ROOT).as_posix() if packed else "own.jsonl"
    assert f"astra-chat report {shown} -o" in text
    assert f"| `{(name if packed else shown).removesuffix('.jsonl')}` |" in text


def test_floors_are_the_fastest_of_each_case(evidence: list[Evidence]) -> None:
    task = find_task("rmsnorm")
    found = [c for one in evidence[:2] for c in one.comparisons if c.task == "rmsnorm"]
    known = floors(task, found, "")
    label = "8192x8192 bfloat16"
    rates = [
        moved / case.baseline_us
        for one in found
        if one.first.tier == "streaming"
        for case, moved in zip(one.cases, one.first_bytes, strict=True)
        if case.case.label == label
    ]
    assert len(rates) > 1 and known.bytes_per_us[label] == max(rates)
    assert 0.5 < known.empty_us[label] < 2 and known.today[label] > 1 and not known.over_today


def test_what_was_timed_side_by_side_stands_before_a_quotient(evidence: list[Evidence]) -> None:
    task = find_task("rmsnorm")
    (jit,) = (
        c
        for c in evidence[1].comparisons
        if (c.task, c.first.name, c.second.name) == ("rmsnorm", "sglang", "jit")
    )
    winner = jit.first.model_copy(update={"tier": "winner", "content": "0123456789ab"})
    beside = jit.model_copy(update={"first": jit.second, "second": winner})
    known = floors(task, [jit, beside], "0123456789ab")
    assert known.over_today == {case.case.label: case.ratio for case in jit.cases}
    assert not floors(task, [jit, beside], "another").over_today


@pytest.mark.second_tier
def test_a_row_says_how_far_a_case_is_from_what_bounds_it(
    runs: list[LiveRun], evidence: list[Evidence]
) -> None:
    """Beside streaming stand large calls only; what was not measured there is blank."""
    on_h200, _, on_h100 = page("rmsnorm", runs, evidence).partition("on NVIDIA H100")
    for text, labels in ((on_h200, True), (on_h100, False)):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
        by_case = {row[0]: row[1:] for row in rows if len(row) == 9}
        small, large = by_case["1x4096 bfloat16"], by_case["8192x8192 bfloat16"]
        assert small[6] == "" and (large[6] != "") == labels
        assert all((row[7] != "") == labels for row in (small, large))
        assert float(large[5]) > 80 and float(small[4]) > 1
