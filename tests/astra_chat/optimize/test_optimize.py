"""`astra-chat optimize` from a file in a git repository to the patch that is applied there, judged
for real on the virtual GPU."""

from __future__ import annotations

import html
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from astra_chat.mailbox.checking import answer
from astra_chat.mailbox.questions import waiting
from astra_chat.tools.task.folder import load_task
from tests.astra_chat.mailbox_samples import scripted
from tests.sources import IMPORT_PATH
from tests.two_operators import SILU, sample

FILE = "csrc/activation.cu"
OWN = Path("astra-optimize/activation")
RUN = ("--device", "virtual", "--rounds", "1", "--mutants", "0", "--quiet", "--trust")


def command(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, words)),
        cwd=folder,
        check=False,
        env={**os.environ, "PYTHONPATH": IMPORT_PATH},
        capture_output=True,
        text=True,
        timeout=1800,
    )


def astra(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return command(folder, sys.executable, "-m", "astra_chat", *words)


def optimize(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return astra(folder, "optimize", *words)


def git(folder: Path, *words: str) -> str:
    me = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = command(folder, "git", *me, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with the sample file, committed."""
    folder = tmp_path / "repository"
    (folder / "csrc").mkdir(parents=True)
    shutil.copy(SILU / "activation.cu", folder / FILE)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "as it was")
    return folder


def complete(task: Path) -> None:
    """The user's part; the contract is small, so that it is judged soon."""
    for name in ("task.toml", "reference.py"):
        shutil.copy(SILU / name, task)


def with_script(task: Path, *kernels: str) -> None:
    """The models' answers: the kernels, or those of the sample."""
    (task / "script").mkdir()
    for name in ("script.toml", "vectors.cu"):
        shutil.copy(SILU / name, task / "script")
    for kernel in kernels:
        (task / "script" / "vectors.cu").write_text(kernel)


@pytest.mark.second_tier
def test_from_the_file_to_the_patch_by_the_same_command(repository: Path, tmp_path: Path) -> None:
    """Each question of the mailbox stops it, and the same command goes on. Of two operators in the
    file, the other stays as it is."""
    (repository / FILE).write_text(sample("activation.cu"))
    git(repository, "commit", "-qam", "two operators")
    own = repository / "astra-optimize" / "silu_and_mul"
    box, words = tmp_path / "box", (FILE, "--op", "silu_and_mul", *RUN, "--no-wait", "--models")
    made = optimize(repository, *words, f"mailbox:{box}")
    assert made.returncode == 2 and "is not complete" in made.stderr, made.stderr
    assert "the same command again: it continues" in made.stderr
    assert git(repository, "status", "--porcelain") == "" and not box.exists()
    assert (own / "task" / "baseline.cu").read_text() == sample("activation.cu")

    complete(own / "task")
    shutil.copytree(own / "task", tmp_path / "activation")
    with_script(tmp_path / "activation", sample("vectors.cu"))
    done = optimize(repository, *words, f"mailbox:{box}")
    while done.returncode == 4:
        assert "resume with: the same command" in done.stderr
        (question,) = waiting(box)
        answer(question, scripted(load_task(tmp_path / "activation"), question))
        done = optimize(repository, *words, f"mailbox:{box}")
    assert done.returncode == 0, done.stderr
    assert [run.name for run in own.glob("run-*")] == ["run-1"]
    assert git(repository, "status", "--porcelain") == ""

    winner = own / "run-1" / "best.cu"
    assert winner.read_text() == sample("vectors.cu")
    assert "confirmed on fresh seeds" in done.stdout and "YOUR.cu" not in done.stdout
    recorded = (own / "run-1" / "transcript.jsonl").read_text()
    assert '"left_as_is":["limit_kernel"]' in recorded.replace(": ", ":")
    applied = command(repository, "git", "apply", own / "winner.patch")
    assert applied.returncode == 0, applied.stderr
    assert (repository / FILE).read_text() == winner.read_text()
    assert git(repository, "status", "--porcelain") == f" M {FILE}\n"

    before = (own / "run-1" / "transcript.jsonl").read_bytes()
    again = optimize(repository, *words, f"mailbox:{box}")
    assert again.returncode == 0 and f"{FILE} already has this patch" in again.stdout
    assert (own / "run-1" / "transcript.jsonl").read_bytes() == before
    line = again.stdout.splitlines()[-1]
    assert line.startswith(f"judge the patched file again, in {repository}: ")
    command_line = line.partition(": ")[2]
    assert command_line in html.unescape((own / "evidence.html").read_text())
    judged = astra(repository, *shlex.split(command_line)[1:], "--min-ratio", "1.0")
    assert judged.returncode == 0, judged.stdout + judged.stderr


@pytest.mark.second_tier
def test_without_a_winner_there_is_no_patch(repository: Path) -> None:
    """The baseline with a comment is a tie. An edited task gets a run of its own."""
    own = repository / OWN
    assert optimize(repository, FILE).returncode == 2
    complete(own / "task")
    with_script(own / "task", (SILU / "activation.cu").read_text() + "// no change\n")
    done = optimize(repository, FILE, *RUN)
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1] == "no patch: no candidate was accepted"
    assert "no patch: no candidate was accepted" in (own / "evidence.html").read_text()
    assert not (own / "winner.patch").exists()

    shutil.rmtree(own / "task" / "script")
    with_script(own / "task")
    done = optimize(repository, FILE, *RUN, "--judge", "detached")
    assert done.returncode == 4, done.stderr
    assert f"the task has changed since {OWN}/run-1: starting {OWN}/run-2" in done.stderr
    while done.returncode == 4:
        worked = astra(repository, "judge", "work", OWN / "run-2", "--once", "--trust")
        assert worked.returncode == 0, worked.stderr
        done = optimize(repository, FILE, *RUN, "--judge", "detached")
    assert done.returncode == 0 and (own / "winner.patch").is_file(), done.stderr


@pytest.mark.second_tier
def test_a_finished_or_begun_folder_is_of_one_file_and_one_way(repository: Path) -> None:
    """No task is made anew, and nothing that was asked for is left out in silence."""
    made = optimize(repository, FILE, "-o", "own", "--op", "silu_and_mul")
    assert made.returncode == 2 and "is not complete" in made.stderr
    again = optimize(repository, FILE, "-o", "own", "-I", "csrc")
    assert again.returncode == 2 and "the task in own was made with none" in again.stderr
    shutil.copy(repository / FILE, repository / "csrc" / "other.cu")
    other = optimize(repository, "csrc/other.cu", "-o", "own")
    assert f"own belongs to {FILE}" in other.stderr
    taken = optimize(repository, FILE, "-o", "csrc")
    assert taken.returncode == 2 and "csrc exists, but optimize did not create it" in taken.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("csrc/none.cu",), "cannot read csrc/none.cu: No such file or directory"),
        (("csrc",), "cannot read csrc: Is a directory"),
        ((FILE, "--op", "nope"), "there is no function 'nope'; it exports silu_and_mul"),
        (("csrc/link.cu",), "csrc/link.cu is a link"),
        (("csrc/lacking.cu",), "lacking.cu: headers are missing: deep/gone.h, gone.cuh"),
        (("csrc/kernel.py",), "kernel.py is not a CUDA file"),
        ((FILE, "--calls", "none.json"), "none.json"),
        ((FILE, "--reference", "none:none"), "--reference none:none"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    repository: Path, words: tuple[str, ...], said: str
) -> None:
    (repository / "csrc" / "link.cu").symlink_to("activation.cu")
    (repository / "csrc" / "lacking.cu").write_text('#include "gone.cuh"\n#include "deep/gone.h"\n')
    (repository / "csrc" / "kernel.py").write_text("")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "more")
    done = optimize(repository, *words)
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1
    assert git(repository, "status", "--porcelain", "--ignored") == "" and done.stdout == ""
