"""The driver: as many runs at once as may be, none stopped by another, nothing lost by a kill."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from astra_chat.campaign.index import driving, read_index
from astra_chat.mailbox.answers import give
from astra_chat.mailbox.questions import questions
from astra_chat.tools.task.folder import Task
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.campaign_samples import TEXT, driver, stories, write_file
from tests.astra_chat.cli.test_judge_jobs import SHORT
from tests.astra_chat.job_commands import BROKEN_BASELINE, command, work

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.second_tier
def test_a_failing_run_does_not_stop_the_others_and_is_said(task: Task, tmp_path: Path) -> None:
    file = write_file(task, tmp_path, "repeats = 2", recording=tmp_path / "{repeat}.jsonl")
    (tmp_path / "recording.jsonl").rename(tmp_path / "2.jsonl")
    out = tmp_path / "out"
    code, text = command("campaign", file, "-o", out)
    assert code == 1
    index = read_index(out)
    failed, ended = index.runs
    assert (failed.state, ended.state, ended.outcome) == ("failed", "ended", "no_plan")
    assert f"cannot read {tmp_path / '1.jsonl'}" in failed.words and failed.words in text
    assert index.totals.ended == 1 and ended.evaluations == 4
    code, text = command("campaign", file, "-o", out)
    assert code == 2
    (tmp_path / "1.jsonl").write_bytes((tmp_path / "2.jsonl").read_bytes())
    before = (out / ended.transcript).read_bytes()
    code, text = command("campaign", file, "-o", out, "--resume", "--json")
    assert code == 0 and [row["state"] for row in json.loads(text)["runs"]] == 2 * ["ended"]
    assert (out / ended.transcript).read_bytes() == before
    assert len(set(map(tuple, stories(out).values()))) == 1
    assert command("campaign", "status", out)[0] == 0
    file.write_text(file.read_text().replace("repeats = 2", "repeats = 1"))
    code, _ = command("campaign", file, "-o", out, "--resume")
    assert code == 2


@pytest.mark.second_tier
def test_the_budget_of_all_leaves_runs_out_that_more_of_it_brings_back(
    task_folder: Path, tmp_path: Path
) -> None:
    """One evaluation each, refused by the guard: the second waits for the first, for nothing."""
    (task_folder / "baseline.cu").write_text(BROKEN_BASELINE)
    file, out = tmp_path / "c.toml", tmp_path / "out"
    text = TEXT.format(task=task_folder, recording="").replace("replay:", "scripted")
    file.write_text(f'{text}devices = ["virtual"]\nrepeats = 2\n[budget]\nevaluations = 1\n')
    code, _ = command("campaign", file, "-o", out, "--quiet")
    first, second = read_index(out).runs
    assert code == 1 and first.outcome == "baseline_failed" and first.evaluations == 1
    assert second.state == "left_out" and not second.transcript
    assert "does not cover another run: evaluations: 1 of 1 spent" in second.words
    file.write_text(file.read_text().replace("evaluations = 1", "evaluations = 2"))
    command("campaign", file, "-o", out, "--resume", "--quiet")
    index = read_index(out)
    assert [row.outcome for row in index.runs] == 2 * ["baseline_failed"]
    assert index.totals.evaluations == 2


@pytest.mark.second_tier
def test_runs_that_wait_for_a_judge_take_no_place_and_go_on_later(
    task_folder: Path, tmp_path: Path
) -> None:
    (task_folder / "baseline.cu").write_text(BROKEN_BASELINE)
    file, out = tmp_path / "c.toml", tmp_path / "out"
    text = TEXT.format(task=task_folder, recording="").replace("replay:", "scripted")
    more = 'devices = ["virtual"]\nrepeats = 2\njudge = "detached"\nat_once = 1\n'
    file.write_text(text + more)
    assert command("campaign", file, "-o", out, "--quiet")[0] == 4
    assert [row.state for row in read_index(out).runs] == 2 * ["waiting"]
    assert command("campaign", "status", out)[0] == 4
    assert work(out)[0] == 0
    assert command("campaign", file, "-o", out, "--resume", "--quiet")[0] == 1
    assert [row.outcome for row in read_index(out).runs] == 2 * ["baseline_failed"]


@pytest.mark.second_tier
def test_runs_that_ask_in_a_mailbox_go_on_when_their_answer_is_there(
    task: Task, tmp_path: Path
) -> None:
    """Waiting takes no place: with one place both runs ask, and the one that is answered asks
    again. The other is not started to look."""
    box, out = tmp_path / "box", tmp_path / "out"
    file = tmp_path / "c.toml"
    text = TEXT.format(task=task.folder, recording=box).replace("replay:", "mailbox:")
    file.write_text(f'{text}devices = ["virtual"]\nrepeats = 2\nat_once = 1\n')
    with driver(file, out, "--wait", "--quiet"):
        _until(lambda: box.is_dir() and len(questions(box)) == 2)
        first, second = questions(box)
        give(first, json.dumps({"reply": {"kind": "pass", "words": "nothing to add"}}))
        _until(lambda: len(questions(box)) == 3)
        asked = [(q.meta.run, q.state) for q in questions(box)]
        _until(lambda: {row.state for row in read_index(out).runs} == {"waiting"})
        before, looks = Path(second.meta.transcript).stat().st_mtime_ns, dict[float, set[str]]()

        def looked_three_times() -> bool:
            index = read_index(out)
            looks[index.totals.wall_s] = {row.state for row in index.runs}
            return len(looks) > 3

        _until(looked_three_times)
        assert list(looks.values()) == [{"waiting"}] * len(looks)
        assert Path(second.meta.transcript).stat().st_mtime_ns == before
    runs = [first.meta.run, second.meta.run]
    assert asked == [(runs[0], "closed"), (runs[1], "open"), (runs[0], "open")]


def _until(there: Callable[[], bool], seconds: float = 900) -> None:
    ends = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < ends
        time.sleep(0.2)


def test_two_drivers_do_not_share_a_folder(tmp_path: Path) -> None:
    with driving(tmp_path / "out"), pytest.raises(BadInput, match="another process is running"):
        with driving(tmp_path / "out"):
            raise AssertionError("both drive")


@pytest.mark.second_tier
def test_killed_at_random_points_it_comes_to_the_same_end(task: Task, tmp_path: Path) -> None:
    file = write_file(task, tmp_path, "repeats = 3", "at_once = 2")
    with driver(file, tmp_path / "whole") as process:
        began = time.monotonic()
        assert process.wait(900) == 0
        whole_s = time.monotonic() - began
    dice, out, resume, killed = random.Random(20261123), tmp_path / "killed", (), 0
    for _ in range(4):
        with driver(file, out, *resume) as process:
            try:
                process.wait(dice.uniform(0.1, 0.6) * whole_s)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                killed += 1
        resume = ("--resume",) if out.is_dir() else ()
    with driver(file, out, *resume) as process:
        assert process.wait(900) == 0
    assert killed >= 1 and stories(out) == stories(tmp_path / "whole")
    before, after = read_index(tmp_path / "whole"), read_index(out)
    rows = [
        [(r.plan, r.state, r.outcome, r.evaluations, r.best) for r in index.runs]
        for index in (before, after)
    ]
    assert rows[0] == rows[1] and len(rows[0]) == 3


@pytest.mark.second_tier
def test_ctrl_c_stops_it_resumably(task: Task, tmp_path: Path) -> None:
    file, out = write_file(task, tmp_path, "repeats = 2", "at_once = 1"), tmp_path / "out"
    with driver(file, out) as process:
        assert process.stdout and b"running" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=900)
    assert process.returncode == 130 and b"continue with --resume" in said
    states = [row.state for row in read_index(out).runs]
    assert states[0] in ("stopped", "new", "ended") and states[1] == "new"
    with driver(file, out, "--resume") as process:
        assert process.wait(900) == 0
    assert [row.state for row in read_index(out).runs] == 2 * ["ended"]


@pytest.mark.second_tier
def test_the_campaign_of_the_documentation_runs(task_folder: Path, tmp_path: Path) -> None:
    """With a task of the tests, which is judged sooner."""
    (task_folder / "script" / "script.toml").write_text(SHORT)
    page = (ROOT / "docs" / "campaigns.md").read_text()
    blocks = re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    file, out = tmp_path / "compare.toml", tmp_path / "out"
    assert '"silu_and_mul"' in blocks[0]
    file.write_text(blocks[0].replace("silu_and_mul", str(task_folder)))
    code, text = command("campaign", file, "-o", out)
    index = read_index(out)
    assert code == 0 and index.totals.ended == index.file.count == 2, text
    assert {row.basis for row in index.runs} == {"estimated"}
    arms = [line for line in (out / "results.md").read_text().splitlines() if "| best |" in line]
    assert len(arms) == 2 and "virtual NVIDIA H200, estimated" in arms[1]
