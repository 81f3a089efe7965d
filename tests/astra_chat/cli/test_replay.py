"""astra-chat replay: its ways to show, and which of them go together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from astra_chat.cli.main import app
from astra_chat.tools.errors import BadInput
from tests.chat_samples import write_transcript


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_transcript(tmp_path / "t.jsonl")


def replay(path: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["replay", str(path), *words])


def test_quietly_it_shows_the_result_only(path: Path) -> None:
    loud, quiet = replay(path), replay(path, "--quiet")
    assert loud.exit_code == quiet.exit_code == 0
    assert "Four at a time." in loud.stdout and "Four at a time." not in quiet.stdout
    assert "all cases, weighted" in quiet.stdout and quiet.stderr == ""
    assert loud.stdout.endswith(quiet.stdout.splitlines(keepends=True)[-1])


def test_json_is_one_document_quiet_or_not(path: Path) -> None:
    for words in (["--json"], ["--json", "--quiet"]):
        document = json.loads(replay(path, *words).stdout)
        assert document["schema"] == "astra-chat/run/1" and document["best"]["ratio"] == 1.9


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rerun", "--rejudge"], "--rejudge and --rerun cannot be combined"),
        (["--prompts", "--quiet"], "--quiet and --prompts"),
        (["-o", "x"], "--out goes with --rerun"),
        (["--turn", "3"], "--turn N goes with --prompts"),
    ],
)
def test_what_does_not_go_together(path: Path, words: list[str], said: str) -> None:
    done = replay(path, *words)
    assert isinstance(done.exception, BadInput) and said in str(done.exception)
