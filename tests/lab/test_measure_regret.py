"""The study of regret on the virtual GPU, and on a file that is of another study."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab.commands import one_line_errors
from lab.regret import read


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lab.measure_regret", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.second_tier
def test_bad_input_is_one_line(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    for arguments, words in (
        (("silu_and_mul/first",), "no space 'silu_and_mul/first': there are"),
        (("silu_and_mul/winner", "-o", str(other)), "was not written by measure_regret"),
    ):
        done = run(*arguments, "--device", "virtual")
        assert done.returncode == 2 and words in done.stderr
        assert len(done.stderr.splitlines()) == 1 and not done.stdout


@pytest.mark.in_full
def test_a_space_is_studied_kept_and_not_measured_again(tmp_path: Path) -> None:
    out = str(tmp_path / "regret.json")
    command = (
        "silu_and_mul/winner",
        "-o",
        out,
        "--device",
        "virtual",
        "--points",
        "4",
        "--measurements",
        "3",
        "--budget-s",
        "600",
    )
    ranked = run(*command[:3], *command[5:9], "--rank", "h200")
    assert ranked.returncode == 0 and "4 points ranked" in ranked.stderr, ranked.stderr
    (before,) = read(Path(out)).spaces
    assert before.ranked and not before.device and not before.measured
    fewer = run(*command[:3], "--points", "3", "--rank", "h200")
    assert fewer.returncode == 2 and "has results for other cases or points" in fewer.stderr
    cut = run(*command[:-1], "0")
    assert cut.returncode == 0 and not read(Path(out)).spaces[0].measured, "no time is left"
    first = run(*command)
    assert first.returncode == 0, first.stderr
    (space,) = read(Path(out)).spaces
    assert [p.estimated for p in space.points] == [p.estimated for p in before.points]
    assert space.done and space.basis == "estimated" and len(space.measured) == 4
    assert space.halving is not None and space.halving.timings < 3 * len(space.cases) + 1
    again = run(*command)
    assert again.returncode == 0 and not again.stderr and again.stdout == first.stdout
    (told,) = run("--document", out).stdout.splitlines()[2:]
    assert told in first.stdout
    other = run(*command[:-4], "--points", "3", "--device", "virtual", "--budget-s", "600")
    assert other.returncode == 0, "a finished space is not looked at again"


def test_ctrl_c_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end, one_line_errors():
        raise KeyboardInterrupt
    assert end.value.code == 130 and capsys.readouterr().err == "astra-chat: interrupted\n"
