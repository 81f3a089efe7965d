"""`astra-chat tune`: bad input is one line, and a tuned kernel is a file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chat_samples import HEAD, VECTOR

KERNEL = Path(__file__).parents[2] / "tools" / "tuning" / "tunable.cu"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = "from astra_chat.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "tune", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--param", "kThreads"), "--param kThreads: write NAME=1,2,4"),
        (("--param", "kWarps=1,2"), "no constant kWarps in the kernel"),
    ],
)
def test_what_cannot_be_tuned_is_one_line(arguments: tuple[str, ...], words: str) -> None:
    done = run("silu_and_mul", str(KERNEL), *arguments)
    assert done.returncode == 2 and words in done.stderr
    assert "Traceback" not in done.stderr and not done.stdout


@pytest.mark.second_tier
def test_a_tuned_kernel_is_written_and_reported(task_folder: Path, tmp_path: Path) -> None:
    kernel, out = tmp_path / "kernel.cu", tmp_path / "best.cu"
    threads = VECTOR.replace(HEAD, f"{HEAD}constexpr int kThreads = 128;\n")
    kernel.write_text(threads.replace("127) / 128), 128", "kThreads - 1) / kThreads), kThreads"))
    done = run(
        str(task_folder),
        str(kernel),
        "--param",
        "kThreads=128,256",
        "--judged",
        "1",
        "--device",
        "virtual",
        "-o",
        str(out),
        "--json",
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["schema"] == "astra-chat/tuning/1" and len(report["points"]) == 2
    assert out.read_text() == report["source"] and report["confirmation"]["confirms"]
    assert "2 of 2 ranked on the virtual GPU" in done.stderr
