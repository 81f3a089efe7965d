"""What a printed command promises: the same failure, on the same case, at the same element."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from astra_chat.cli.main import app
from astra_chat.tools.entropy import VARIABLE
from tests.chat_samples import SCALAR

UNLUCKY = SCALAR.replace(
    "out[i] = 2.0f * in[i];",
    "out[i] = (__float_as_uint(in[i]) & 0x1ff) == 0x123 ? 7.0f : 2.0f * in[i];",
)
"""Wrong on one in 512 of the values that are drawn: which case shows it is chance."""


def ran(words: list[str]) -> tuple[str, list[str]]:
    """The verdict of a kernel that fails, and the command that is to show it again."""
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1, done.stdout
    verdict, *lines = done.stdout.splitlines()
    (line,) = (line for line in lines if line.startswith("reproduce with: astra-chat "))
    return verdict, shlex.split(line)[3:]


@pytest.mark.second_tier
def test_the_printed_command_shows_the_same_failure(
    task_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = tmp_path / "a kernel.cu"
    kernel.write_text(UNLUCKY)
    words = ["check", str(task_folder), str(kernel), "--device", "virtual", "--trust"]
    monkeypatch.setenv(VARIABLE, "1")
    verdict, again = ran(words)
    assert again[:3] == words[:3] and {"--case", "--seed", "--trust"} <= set(again)
    monkeypatch.setenv(VARIABLE, "2")
    assert ran(words)[0] != verdict, "other numbers fail elsewhere: this test can tell"
    assert ran(again) == (verdict, again)
    assert ran([*words, *again[again.index("--seed") :]])[0] == verdict, "the seed is enough"


def test_a_refused_kernel_needs_no_case(task_folder: Path, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.cu"
    kernel.write_text("int x;")
    words = ["check", str(task_folder), str(kernel), "--device", "virtual", "--trust"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1 and "reproduce with" not in done.stdout


def test_what_is_no_seed_is_bad_input(task_folder: Path, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.cu"
    kernel.write_text(SCALAR)
    done = CliRunner().invoke(
        app, ["check", str(task_folder), str(kernel), "--device", "virtual", "--seed", "lucky"]
    )
    assert done.exit_code != 0 and "'lucky' is not a seed" in str(done.exception)
