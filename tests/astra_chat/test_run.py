"""The whole of it: scripted chats with the real judge on the virtual GPU, also cut short."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import astra_chat
from astra_chat.tools.types import sha256_of
from astra_chat.transcript.events import Blob
from astra_chat.transcript.reader import read
from astra_chat.verify.recorded import opened
from astra_chat.verify.verify import REPEATS, VERDICT_AGAIN, measured_again
from tests.chat_samples import story

ROOT = Path(__file__).parents[2]


QUICK = ("--device", "virtual", "--mutants", 4)
QUICKEST = ("--device", "virtual", "--mutants", 0)


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "astra_chat", *map(str, words)]


def follow(path: Path, lines: int, process: subprocess.Popen[str]) -> None:
    """Wait until a transcript has so many lines."""
    deadline = time.monotonic() + 900
    while not path.is_file() or path.read_text().count("\n") < lines:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the run is too slow"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path, str]]:
    """A finished run by the command: task folder, run folder, stdout."""
    from tests.chat_samples import KERNELS, REFERENCE, SCALAR, SCRIPT, TASK_TOML

    folder = tmp_path_factory.mktemp("run") / "doubled"
    (folder / "script").mkdir(parents=True)
    (folder / "task.toml").write_text(TASK_TOML)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "baseline.cu").write_text(SCALAR)
    (folder / "script" / "script.toml").write_text(SCRIPT)
    for name, text in KERNELS.items():
        (folder / "script" / name).write_text(text)
    out = folder.parent / "out"
    done = subprocess.run(
        command("run", folder, *QUICK, "-o", out),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    yield folder, out, done.stdout


@pytest.mark.second_tier
def test_the_script_comes_true_on_the_virtual_gpu(whole: tuple[Path, Path, str]) -> None:
    _, out, stdout = whole
    transcript = read(out)
    assert transcript.ended is not None and transcript.ended.reason == "no_plan"
    assert "differs from the script" not in stdout
    assert transcript.ended.ratio is not None and transcript.ended.ratio > 1.05
    assert transcript.ended.basis == "estimated"
    assert "estimated for NVIDIA H200" in stdout


@pytest.mark.second_tier
def test_the_folder_is_complete(whole: tuple[Path, Path, str]) -> None:
    _, out, _ = whole
    assert "float4" in (out / "best.cu").read_text()
    assert {path.name for path in (out / "best").iterdir()} >= {"doubled.so", "README.md"}


@pytest.mark.second_tier
def test_a_stranger_can_judge_it_again(whole: tuple[Path, Path, str], tmp_path: Path) -> None:
    """The task folder and the best candidate come back out of the transcript alone."""
    folder, out, _ = whole
    transcript = read(out)
    stored = {r.event.sha256: r.event.text for r in transcript.records if isinstance(r.event, Blob)}
    assert all(sha256_of(text) == sha for sha, text in stored.items())
    for name, sha in transcript.header.task.files.items():
        path = tmp_path / "task" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stored[sha])
        assert path.read_text() == (folder / name).read_text()
    done = subprocess.run(
        command("check", tmp_path / "task", out / "best.cu", "--device", "virtual"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.second_tier
def test_replay_prints_what_the_run_printed(whole: tuple[Path, Path, str]) -> None:
    _, out, stdout = whole
    done = subprocess.run(
        command("replay", out / "transcript.jsonl"), cwd=ROOT, capture_output=True, text=True
    )
    what_is_next = re.compile(r"^next: .*\n(  astra-chat .*\n)+", re.MULTILINE)
    assert what_is_next.search(stdout) and done.stdout == what_is_next.sub("", stdout)


@pytest.mark.second_tier
def test_the_winner_repeats(whole: tuple[Path, Path, str]) -> None:
    """`verify --measure`: judged again, everything is equal on the virtual GPU."""
    with opened(read(whole[1])) as run:
        found = {one.name: one for one in measured_again(run, "", trust=False)}
    assert {name: one.status for name, one in found.items()} == {
        VERDICT_AGAIN: "stands",
        REPEATS: "stands",
    }, found


@pytest.mark.second_tier
def test_from_python(whole: tuple[Path, Path, str], tmp_path: Path) -> None:
    folder, out, _ = whole
    result = astra_chat.run(folder, device="virtual", out=tmp_path / "out", rounds=1, mutants=0)
    assert len(result.summary.rounds) == 1 and result.transcript.is_file()
    assert result.summary.ended is not None and result.summary.ended.reason == "rounds"
    first = read(out).header
    assert read(result.transcript).header.task == first.task, "judged by the same rules"


def started(folder: Path, out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("run", folder, *QUICK, "-o", out),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.in_full
@pytest.mark.second_tier
def test_a_killed_run_goes_on_to_the_identical_end(
    whole: tuple[Path, Path, str], tmp_path: Path
) -> None:
    """Without its task folder: the task comes from the transcript."""
    folder, out, _ = whole
    path = tmp_path / "out" / "transcript.jsonl"
    process = started(folder, path.parent)
    follow(path, 27, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    found = read(path)
    assert found.ended is None and len(found.records) >= 27
    done = subprocess.run(
        command("run", "--resume", path), cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert story(path) == story(out)
    assert "resumed on" in done.stdout and done.stdout.count("Leave the scalar loop") == 1
    again = subprocess.run(command("replay", path), cwd=ROOT, capture_output=True, text=True)
    assert again.stdout == done.stdout
    assert (path.parent / "best.cu").read_text() == (out / "best.cu").read_text()


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.sampled(1)
@pytest.mark.second_tier
def test_ctrl_c_ends_with_130_and_says_how_to_go_on(
    whole: tuple[Path, Path, str], tmp_path: Path, times: int
) -> None:
    folder, out, _ = whole
    path = tmp_path / "out" / "transcript.jsonl"
    process = started(folder, path.parent)
    follow(path, 14, process)
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    finishing = process.stderr.readline()
    if times == 2:
        process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=900)
    assert process.returncode == 130, stderr
    assert stdout.endswith(f"transcript: {path}\n")
    assert "Ctrl-C again stops at once" in finishing
    assert stderr == f"astra-chat: resume with: astra-chat run --resume {path}\n"
    ended = read(path).ended
    assert ended is not None and ended.reason == "interrupted"
    assert not _children_in(tmp_path), "no process continues"
    done = subprocess.run(
        command("run", folder, "--resume", path.parent, "--quiet"), cwd=ROOT, timeout=900
    )
    assert done.returncode == 0 and story(path) == story(out)


def _children_in(folder: Path) -> list[str]:
    """Command lines of processes that name this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            found += [line] if str(folder) in line else []
    return found


@pytest.mark.second_tier
def test_json_is_one_document_on_stdout(whole: tuple[Path, Path, str], tmp_path: Path) -> None:
    folder, _, _ = whole
    done = subprocess.run(
        command("run", folder, *QUICKEST, "-o", tmp_path, "--rounds", 1, "--json"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    document = json.loads(done.stdout)
    assert document["schema"] == "astra-chat/run/1" and document["best"] is None
    assert done.returncode == 0, "a run in which nothing got faster is a good run"
    assert "no candidate was faster" in document["ended"]["words"].lower()
