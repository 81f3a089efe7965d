"""`astra-chat judge`, and a run with --judge detached: exit codes, one clear line, the same end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from astra_chat.detached.jobs import JOB, folders_under, read_job
from astra_chat.detached.results import RESULT, result_of
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Timed
from astra_chat.transcript.reader import read
from astra_chat.transcript.run_folder import TRANSCRIPT
from astra_chat.verify.recorded import opened
from tests.astra_chat.job_commands import BROKEN_BASELINE, NO_MUTANTS, command, work
from tests.astra_chat.job_samples import put
from tests.astra_chat.remote_samples import stand_in
from tests.chat_samples import SCRIPT


def test_work_ends_with_a_count_and_a_code(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    assert work(runs) == (0, "astra-chat: 0 judged, 0 refused, 0 with other workers, 0 failed\n")
    put(runs / "one" / "jobs", task)
    code, text = work(runs)
    assert code == 0 and re.match(r"job [0-9a-f]{12}: doubled, candidate \w+: refused", text)
    assert "1 judged, 0 refused" in text
    put(runs / "two" / "jobs", task, judge_sha256=64 * "a")
    code, text = work(runs)
    assert code == 2 and "use the same version on both machines" in text and text.count("\n") == 2
    code, text = command("judge", "work", runs, "--device", "virtual", "--once", "--json")
    document = json.loads(text)
    assert (code, document["schema"]) == (2, "astra-chat/worked/1")
    assert document["count"] == {"judged": 0, "refused": 1, "claimed": 0, "failed": 0}
    assert command("judge", "work", runs, "--json")[0] == 2
    assert "--json requires --once" in capsys.readouterr().err
    assert work(tmp_path / "nowhere")[0] == 2
    assert "cannot read" in capsys.readouterr().err


def test_workers_side_by_side_judge_each_job_once(task: Task, tmp_path: Path) -> None:
    folders = [put(tmp_path / "jobs", task, number=number) for number in range(6)]
    put(tmp_path / "other" / "jobs", task, judge_sha256=64 * "a")
    words = ("--device", "virtual", "--once", "--json", "--workers", "3")
    code, text = command("judge", "work", tmp_path, *words)
    document = json.loads(text)
    assert code == 2
    assert document["count"] == {"judged": 6, "refused": 1, "claimed": 0, "failed": 0}
    judged = [line.split()[1] for line in document["lines"] if "candidate" in line]
    assert sorted(judged) == sorted(f"{folder.name[:12]}:" for folder in folders)
    assert sum("is refused" in line for line in document["lines"]) == 1


WITHOUT_AUTOGEN = """
import sys
for name in ("autogen_core", "autogen_agentchat", "autogen_ext", "autogen", "openai"):
    sys.modules[name] = None  # as where it is not installed
from astra_chat.cli.main import main
main()
"""


@pytest.mark.second_tier
def test_a_worker_needs_neither_autogen_nor_openai(task: Task, tmp_path: Path) -> None:
    folder = put(tmp_path / "jobs", task)
    words = ["judge", "work", str(tmp_path), "--once", "--device", "virtual"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_AUTOGEN, *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert result_of(folder, read_job(folder)) is not None


def test_what_another_machine_has_must_be_said(
    task_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No GPU is here: its constants stand for it."""
    options = ["run", task_folder, "--models", "scripted", "--judge", "detached", *NO_MUTANTS]
    assert command(*options, "--out", tmp_path / "a")[0] == 2
    assert "for another machine, use cuda" in capsys.readouterr().err
    assert command(*options, "--device", "cuda:1", "--out", tmp_path / "a")[0] == 2
    (task_folder / "baseline.cu").write_text(BROKEN_BASELINE)
    options += ["--device", "cuda", "--gpu", "h100", "--out", tmp_path / "a"]
    assert command(*options)[0] == 4
    device = read(tmp_path / "a").header.device
    assert (device.kind, device.arch, device.name) == ("cuda", "sm_90", "NVIDIA H100 80GB HBM3")
    code, text = work(tmp_path)
    assert code == 2 and "asks for NVIDIA H100 80GB HBM3 (cuda, sm_90)" in text
    code, text = command("advance", tmp_path)
    assert code == 4 and "refused by" in text and "this worker has virtual GPU" in text
    assert command("run", "--resume", tmp_path / "a" / TRANSCRIPT, "--quiet")[0] == 4
    code, _ = command("run", task_folder, "--judge", "elsewhere")
    assert code == 2 and "--judge elsewhere" in capsys.readouterr().err


@pytest.mark.second_tier
def test_jobs_and_results_are_carried_in_files(task_folder: Path, tmp_path: Path) -> None:
    (task_folder / "baseline.cu").write_text(BROKEN_BASELINE)
    options = ["--models", "scripted", "--device", "virtual", "--judge", "detached", *NO_MUTANTS]
    runs, there, file = tmp_path / "runs", tmp_path / "there", tmp_path / "carried.zip"
    there.mkdir()
    assert command("run", task_folder, *options, "--quiet", "--out", runs / "a")[0] == 4
    code, text = command("judge", "pack", runs, "-o", file)
    assert (code, text) == (0, f"{file}: 1 open job, 0 results, 0 refusals\n")
    code, said = command("judge", "unpack", file, there, "--json")
    assert code == 0 and json.loads(said) == {
        "schema": "astra-chat/carried/1",
        "file": str(file),
        "jobs": 1,
        "results": 0,
        "refusals": 0,
        "left_out": [],
    }
    assert work(there)[0] == 0
    code, text = command("judge", "pack", there, "-o", file)
    assert (code, text) == (0, f"{file}: 0 open jobs, 1 result, 0 refusals\n")
    assert "left out: result of job" in command("judge", "unpack", file, tmp_path / "doubled")[1]
    assert command("judge", "unpack", file, runs) == (0, text)
    code, text = command("advance", runs)
    assert code == 1 and ": ended: " in text
    assert command("judge", "unpack", runs / "a" / TRANSCRIPT, runs)[0] == 2


@pytest.mark.parametrize(
    ("first", "code", "words"),
    [
        ("echo 'ssh: connect to box: No route' >&2; exit 255", 3, "ssh: connect to box: No route"),
        ("echo 'astra-chat: no CUDA device 0' >&2; exit 3", 3, "no CUDA device 0"),
        ("", 2, "it asks for the judge .*: use the same version on both machines"),
    ],
)
def test_a_host_that_cannot_judge_is_one_line_before_the_run_begins(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    first: str,
    code: int,
    words: str,
) -> None:
    log, out = stand_in(tmp_path, monkeypatch, first), tmp_path / "a"
    monkeypatch.setattr("astra_chat.detached.asking.judge_sha256", lambda: 64 * "a")
    options = ["--device", "virtual", "--judge", "ssh:box", "--quiet", "--out", out]
    assert command("run", "silu_and_mul", *options)[0] == code
    assert re.fullmatch(f"astra-chat: --judge ssh:box: {words}\n", capsys.readouterr().err)
    assert log.read_text() == "box\n" and not out.exists()


@pytest.mark.second_tier
def test_a_host_judges_while_the_run_goes_on(
    task_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that fails during the run is one line; resumed, the run goes on with the same job. The
    transcript names no host."""
    (task_folder / "baseline.cu").write_text(BROKEN_BASELINE)
    options = ["--models", "scripted", "--device", "virtual", *NO_MUTANTS, "--out", tmp_path / "a"]
    lost = "case $2 in *--check*) ;; *) echo 'ssh: connect to box: No route' >&2; exit 255;; esac"
    stand_in(tmp_path, monkeypatch, lost)
    code, text = command("run", task_folder, *options, "--judge", "ssh:box", "--quiet")
    transcript = tmp_path / "a" / TRANSCRIPT
    assert code == 4 and f"--resume {transcript} --judge ssh:box" in text
    ended = read(transcript).ended
    lost = "The judge stopped: ssh:box: ssh: connect to box: No route"
    assert ended is not None and lost in ended.words
    stand_in(tmp_path, monkeypatch)
    code, _ = command("run", "--resume", transcript, "--judge", "ssh:box", "--quiet")
    ended = read(transcript).ended
    assert code == 1 and ended is not None and ended.reason == "baseline_failed"
    assert len(list(folders_under([tmp_path]))) == 1

    assert read(transcript).options.judge == "detached"


SHORT = SCRIPT[: SCRIPT.index("[[round]]")] + SCRIPT[SCRIPT.rindex("[[round]]") :]
"""The sample's script with the one round that has a winner."""


@pytest.mark.in_full
@pytest.mark.second_tier
def test_a_detached_run_has_the_verdicts_of_a_local_one(task_folder: Path, tmp_path: Path) -> None:
    """Everything real: scripted models, builds here, jobs judged by commands on the virtual GPU."""
    (task_folder / "script" / "script.toml").write_text(SHORT)
    options = ["--models", "scripted", "--device", "virtual", "--rounds", 1, "--mutants", 0]
    local, out = tmp_path / "local", tmp_path / "detached"
    assert command("run", task_folder, *options, "--quiet", "--out", local)[0] == 0
    options += ["--judge", "detached"]
    code, _ = command("run", task_folder, *options, "--quiet", "--out", out)
    while code == 4:
        assert work(tmp_path)[0] == 0
        code, _ = command("advance", tmp_path)
    assert code == 0
    assert verdicts(out) == verdicts(local) and len(verdicts(out)) == 3
    assert (out / "best.cu").read_text() == (local / "best.cu").read_text()
    code, text = command("verify", out)
    assert code == 0, text
    assert all((folder / RESULT).exists() for folder in folders_under([out]))
    assert all((folder / JOB).exists() for folder in folders_under([out]))


def verdicts(out: Path) -> list[tuple[object, ...]]:
    """What does not depend on its seed, of each evaluation."""
    found: list[tuple[object, ...]] = []
    with opened(read(out)) as run:
        for turn, one in run.evaluations:
            timed = one.outcome
            assert isinstance(timed, Timed)
            times = [(case.baseline_us, case.median_us) for case in timed.cases]
            found.append((turn, one.candidate, one.confirms, timed.verdict, timed.ratio, times))
    return found
