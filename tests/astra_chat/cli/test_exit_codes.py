"""1 is the kernel's: what the machine refuses is 2 or 3 and one line."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from astra_chat.cli.exit_codes import exit_code_of
from astra_chat.tools.task.folder import find_task
from astra_vgpu.ground.errors import AstraError, BadInput, MissingDependency
from tests.chat_samples import write_transcript
from tests.sources import IMPORT_PATH

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2


def obey_modes() -> None:
    """Root too may not write where the mode forbids it."""
    if os.geteuid() == 0:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0


def small_files() -> None:
    """Files end after 4 KiB, as on a disk with room for one more block."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def astra(folder: Path, limits: Callable[[], None], *words: object) -> tuple[int, list[str]]:
    """Exit code and stderr of the program in `folder`, under `limits`."""
    done = subprocess.run(
        [sys.executable, "-m", "astra_chat", *map(str, words)],
        cwd=folder,
        preexec_fn=limits,
        env={**os.environ, "PYTHONPATH": IMPORT_PATH},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr.splitlines()


@pytest.fixture
def read_only(tmp_path: Path) -> Path:
    folder = tmp_path / "read_only"
    folder.mkdir(mode=0o555)
    return folder


@pytest.mark.second_tier
def test_a_folder_that_cannot_be_written(read_only: Path, tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    baseline = find_task("silu_and_mul").folder / "baseline.cu"
    for words in (
        ("report", path),
        ("new", "mine", "--from", baseline),
        ("run", "silu_and_mul", "--device", "virtual"),
    ):
        code, lines = astra(read_only, obey_modes, *words)
        assert code in (2, 3) and len(lines) == 1 and "Permission denied" in lines[0], lines


@pytest.mark.second_tier
def test_a_disk_that_is_full_keeps_the_earlier_report(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    assert astra(tmp_path, lambda: None, "report", path) == (0, [])
    before = (tmp_path / "report.html").read_bytes()
    code, lines = astra(tmp_path, small_files, "report", path)
    assert code == 2 and len(lines) == 1 and "File too large" in lines[0]
    assert (tmp_path / "report.html").read_bytes() == before
    assert not (tmp_path / ".report.html.part").exists()


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (BadInput("no task"), 2, "no task"),
        (MissingDependency("no nvcc"), 3, "no nvcc"),
        (AstraError("the worker failed"), 3, "the worker failed"),
        (OSError(28, "No space left on device", "/x/y"), 3, "/x/y: No space left on device"),
        (ValueError("odd"), 3, "internal error: ValueError: odd"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (SystemExit(4), 4, ""),
        (SystemExit(None), 0, ""),
    ],
)
def test_every_failure_is_a_line_and_a_code(
    error: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command() -> None:
        raise error

    monkeypatch.delenv("ASTRA_DEBUG", raising=False)
    assert exit_code_of(command) == code
    assert capsys.readouterr().err.startswith(f"astra-chat: {line}" if line else "")
