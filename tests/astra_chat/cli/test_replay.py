"""astra-chat replay: its ways to show, and which of them go together."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from astra_chat.cli.main import app
from astra_vgpu.ground.errors import BadInput
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
        (["-o", "x"], "--out requires --rerun"),
        (["--turn", "3", "--json"], "omit --json"),
        (["--role", "coder", "--rejudge"], "omit --rejudge"),
        (["--speed", "2", "--quiet"], "omit --quiet"),
        (["--speed", "0"], "greater than 0"),
        (["--round", "7"], "has rounds 0 to 1"),
        (["--turn", "99"], "has turns 1 to 8"),
        (["--role", "coda"], "did you mean coder"),
        (["--role", "planner", "--turn", "1"], "this role has no turn in this round"),
    ],
)
def test_what_does_not_go_together(path: Path, words: list[str], said: str) -> None:
    done = replay(path, *words)
    assert isinstance(done.exception, BadInput) and said in str(done.exception)


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["--turn", "4"], [4]),
        (["--round", "0"], [1, 2, 3]),
        (["--round", "1", "--role", "executor"], [6, 7]),
        (["--role", "coder", "--role", "planner"], [4, 5]),
    ],
)
def test_some_turns(path: Path, words: list[str], numbers: list[int]) -> None:
    """The chosen ones look as in the whole, under the same head, and nothing else is shown."""
    whole = replay(path).stdout
    said = replay(path, *words)
    assert said.exit_code == 0
    assert [int(n) for n in re.findall(r"^ +(\d+)  \w+  ", said.stdout, re.MULTILINE)] == numbers
    assert all(line in whole.splitlines() for line in said.stdout.splitlines())
    assert said.stdout.splitlines()[0] == whole.splitlines()[0]


@pytest.mark.second_tier
def test_through_a_pager(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("click.echo_via_pager", lambda text, color: shown.append(text))
    direct = replay(path, "--no-pager").stdout
    paged = replay(path, "--pager").stdout
    assert shown[0] + paged == direct and paged.startswith("transcript:")
