"""`astra-chat run`: its options reach the transcript's header, and can be switched off again."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from astra_chat.cli.exit_codes import WAITING
from astra_chat.cli.main import app
from astra_chat.transcript.reader import read


def command(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["run", *words])
    return done.exit_code, done.output


@pytest.mark.second_tier
def test_options_are_recorded_and_switched_off_on_resume(task_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = ("--device", "virtual", "--mutants", "0", "--budget", "evaluations=2", "--quiet")
    code, text = command(
        str(task_folder),
        *given,
        "-o",
        str(out),
        "--approver",
        "detached",
        "--stop-at",
        "90",
        "--patience",
        "3",
        "--strategy",
        "beam:2",
    )
    assert code == WAITING, text
    options = read(out).options
    assert (options.approval, options.mutants, options.budget) == ("detached", 0, "evaluations=2")
    assert (options.stop_at_percent, options.patience) == (90.0, 3)
    assert str(options.strategy) == "beam:2"

    off = ("--no-approve", "--stop-at", "0", "--patience", "0")
    code, text = command("--resume", str(out), *off, "--budget", "evaluations=1", "--quiet")
    assert code == 0, text
    options = read(out).options
    assert (options.approval, options.stop_at_percent, options.patience) == ("", None, None)
