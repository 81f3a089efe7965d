"""A run over a kernel for several GPUs, on virtual ones: from its first turn to what is done with
it afterwards."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from astra_chat.session.api import run
from astra_chat.tools.task.folder import find_task, load_task
from tests.after_a_run import judged_again, report_of, rows_of

NAME = "allreduce_add_rmsnorm"
CASES = {
    "ranks": "[2]",
    "check": "[{ tokens = 1, h = 4096 }, { tokens = 3, h = 4104 }]",
    "bench": "[{ tokens = 1, h = 4096, weight = 1 }]",
    "demo": "[{ tokens = 1, h = 4096, weight = 1 }]",
}


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """The shipped task's folder with few and short cases of two ranks."""
    folder = tmp_path / NAME
    shutil.copytree(find_task(NAME).folder, folder)
    text = (folder / "task.toml").read_text()
    for name, value in CASES.items():
        text, count = re.subn(rf"(?ms)^{name} = \[.*?\]$", f"{name} = {value}", text)
        assert count == 1, name
    (folder / "task.toml").write_text(text)
    assert {case.dims["ranks"] for case in load_task(folder).check} == {2}
    return folder


@pytest.mark.second_tier
def test_a_scripted_run_over_several_virtual_gpus(short: Path) -> None:
    found = run(
        str(short), models="scripted", device="virtual", mutants=0, rounds=1,
        out=short.parent / "out", trust=True, seed="52",
    )  # fmt: skip
    summary = found.summary
    assert summary.ended is not None and summary.ended.reason == "rounds"
    assert not summary.deviations
    (one,) = summary.rounds
    assert [attempt.verdict for attempt in one.attempts] == ["refused", "accepted"]
    assert summary.best is not None
    transcript = found.transcript
    page = report_of(transcript)
    assert "the largest tax" in page and "nothing orders the stores before it" in page
    rows = rows_of(transcript)
    assert [row["verdict"] for row in rows] == ["tie", "refused", "accepted", "accepted"]
    assert rows[-1]["confirms"] and rows[-1]["basis"] == "estimated"
    again = judged_again(transcript)
    assert [one["agrees"] for one in again["rejudged"]] == [True] * 4, again
