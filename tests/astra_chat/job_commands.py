"""Commands of runs with --judge detached, as a user types them."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from astra_chat.cli.exit_codes import exit_code_of
from astra_chat.cli.main import app

BROKEN_BASELINE = "// no launcher\n"
NO_MUTANTS = ("--mutants", 0)


def command(*words: object) -> tuple[int, str]:
    """Exit code and everything printed, as main() gives them."""
    said: list[str] = []

    def work() -> None:
        done = CliRunner().invoke(app, list(map(str, words)))
        said.append(done.output)
        if done.exception is not None:
            raise done.exception

    code = exit_code_of(work)
    return code, "".join(said)


def work(folder: Path) -> tuple[int, str]:
    return command("judge", "work", folder, "--device", "virtual", "--once")
