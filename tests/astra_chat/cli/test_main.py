"""The command line: exit codes, one clear line for what is off, JSON that is versioned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from astra_chat.cli.main import app, main
from astra_chat.version import __version__
from tests.astra_chat.commands import Command
from tests.chat_samples import write_transcript

ROOT = Path(__file__).parents[3]


def test_help_names_every_command(command: Command) -> None:
    said = command("--help")
    assert said.code == 0
    lines = said.out.splitlines()
    for name in (
        *("run", "replay", "report", "approve", "check", "time", "profile", "tasks", "new"),
        *("models", "doctor"),
    ):
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert not line.endswith("..."), "a whole sentence"
    assert "Exit codes: 0 done" in said.out


def test_the_version(command: Command) -> None:
    for option in ("--version", "-V"):
        said = command(option)
        assert (said.code, said.out, said.lines) == (0, f"astra-chat {__version__}\n", [])


def test_h_is_help_everywhere(command: Command) -> None:
    assert command("-h").out == command("--help").out
    for words in (["run"], ["check"], ["tasks", "check"], ["models", "check"]):
        said = command(*words, "-h")
        assert said.code == 0 and said.out.startswith(f"Usage: astra-chat {' '.join(words)} [")


def test_the_shell_completes_commands() -> None:
    environment = {
        **os.environ,
        "_ASTRA_CHAT_COMPLETE": "complete_bash",
        "COMP_WORDS": "astra-chat re",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        [Path(sys.executable).with_name("astra-chat")],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["replay", "report"]


def test_replay_prints_the_run_and_where_it_lies(command: Command, tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    said = command("replay", path)
    assert said.code == 0 and not said.lines
    assert "all cases, weighted" in said.out and said.out.endswith(f"transcript: {path}\n")


def test_replay_as_json(command: Command, tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    document = json.loads(command("replay", path, "--json").out)
    assert document["schema"] == "astra-chat/run/1" and document["transcript"] == str(path)
    assert document["best"]["ratio"] == 1.9


@pytest.mark.second_tier
def test_the_log_level_says_how_much_is_told_on_stderr(  # type: ignore[no-untyped-def]
    command, task_folder: Path, tmp_path: Path
) -> None:
    """That without it nothing is told, tests/astra_chat/test_run.py says of its run."""
    words = ("run", task_folder, "--device", "virtual", "--budget", "evaluations=1", "--quiet")
    said = command("--log-level", "info", *words, "--mutants", "0", "-o", tmp_path / "out")
    turns = [line for line in said.lines if line.startswith("astra-chat: turn 2: tester, tests")]
    judged = [line for line in said.lines if "evaluation of" in line and ": tie; guard" in line]
    assert said.code == 0 and "resume with" in said.lines[-1]
    assert len(turns) == len(judged) == 1
    assert "turn 2" not in said.out


def test_an_unknown_log_level_is_refused(command: Command) -> None:
    assert command("--log-level", "loud", "tasks").code == 2


def test_a_torn_transcript_is_shown_then_refused(command: Command, tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    path.write_text(path.read_text()[:-9])
    said = command("replay", path)
    assert said.code == 2 and len(said.lines) == 1 and "cut off" in said.lines[0]
    assert "Four at a time." in said.out, "what is whole is shown"


def test_a_killed_run_is_shown_and_said_to_be_one(command: Command, tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    said = command("replay", path)
    assert said.code == 0 and "killed before it ended" in said.lines[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "none"], "no task 'none'"),
        (["run", "silu_and_mul", "--models", "oracle"], "no backend 'oracle'"),
        (["run", "silu_and_mul", "--device", "tpu"], "no device 'tpu'"),
        (["run", "silu_and_mul", "--rounds", "0"], "--rounds 0"),
        (["run", "silu_and_mul", "--baseline", "mine"], "--baseline mine"),
        (["run", "silu_and_mul", "--cases", "few"], "--cases few"),
        (
            ["run", "silu_and_mul", "--device", "virtual", "-o", "/proc/none/out"],
            "cannot write /proc/none/out",
        ),
        (["replay", "none.jsonl"], "cannot read none.jsonl"),
        (["replay", "/dev/null"], "not a regular file"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(command: Command, words: list[str], said: str) -> None:
    found = command(*words)
    assert found.code == 2 and found.out == ""
    assert len(found.lines) == 1 and said in found.lines[0]


def test_usage_errors_are_exit_2(command: Command) -> None:
    assert command("run").code == 2
    assert command("run", "silu_and_mul", "--nonsense").code == 2


def test_a_run_that_would_overwrite_is_refused(
    command: Command, task_folder: Path, tmp_path: Path
) -> None:
    path = write_transcript(tmp_path / "out" / "transcript.jsonl")
    before = path.read_bytes()
    said = command("run", task_folder, "--device", "virtual", "-o", path.parent)
    assert said.code == 2 and "not overwritten" in said.lines[0]
    assert path.read_bytes() == before


@pytest.mark.second_tier
def test_no_compiler_is_exit_3(task_folder: Path, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH")}
    environment |= {"PATH": str(tmp_path), "CXX": "no-such-compiler"}
    done = subprocess.run(
        [sys.executable, "-m", "astra_chat", "run", str(task_folder), "--device", "virtual"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1 and "no-such-compiler" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unforeseen_error_is_one_line_unless_asked(
    command,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,  # type: ignore[no-untyped-def]
) -> None:
    def broken(path: Path) -> None:
        error = ZeroDivisionError("division by zero")
        error.add_note("the transcript so far: here")
        raise error

    monkeypatch.setattr("astra_chat.transcript.reader.read", broken)
    said = command("replay", tmp_path)
    assert said.code == 3, "1 is the kernel's"
    assert "ZeroDivisionError" in said.lines[0] and "ASTRA_DEBUG=1" in said.lines[0]
    assert said.lines[1] == "astra-chat: the transcript so far: here"
    monkeypatch.setattr(sys, "argv", ["astra-chat", "replay", str(tmp_path)])
    monkeypatch.setenv("ASTRA_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main()


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    code = (
        "import sys, astra_chat.cli.main; heavy = [m for m in sys.modules if m.split('.')[0] in"
        " ('autogen_core', 'autogen_agentchat', 'torch', 'numpy', 'openai', 'pydantic', 'asyncio')"
        " or m.startswith('astra_chat.agents.turns')]; assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


PRIVATE = (
    "who answers, what to beat, goes on, go on, go back to a sitting, anew, in words, lacks,"
    " hold the chat, whose time, right?, foretold, meanwhile, stranger, speaks"
).split(", ")
"""Phrases that an engineer of the field would not write."""


def every_command(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from every_command(below, (*path, name))


@pytest.mark.parametrize("path", [*every_command(get_command(app))], ids=" ".join)
def test_help_is_plain_and_names_only_what_the_wheel_has(  # type: ignore[no-untyped-def]
    command, path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("TERMINAL_WIDTH", "400")
    page = " ".join(command(*path, "--help").out.split())
    assert page.startswith(f"Usage: astra-chat {' '.join(path)}".rstrip())
    assert not [words for words in PRIVATE if words in page.lower()]
    assert "docs/" not in page and ".md" not in page
