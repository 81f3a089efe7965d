"""`astra-chat view` and `astra-chat runs list`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from astra_chat.cli.main import app
from astra_chat.tools.recordings.archive import packed
from astra_chat.transcript.reader import read
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import write_transcript
from tests.sources import IMPORT_PATH


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_transcript(tmp_path / "a" / "transcript.jsonl")
    return tmp_path


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_list(folder: Path) -> None:
    said = run("runs", "list", folder)
    assert said.exit_code == 0
    assert "doubled" in said.stdout and "ended" in said.stdout and "1.90x" in said.stdout
    document = json.loads(run("runs", "list", folder, "--json").stdout)
    assert document["schema"] == "astra-chat/runs/1"
    assert document["runs"][0]["path"] == "a/transcript.jsonl"
    assert document["runs"][0]["best"]["ratio"] == 1.9


def test_the_list_of_an_archive_names_paths_that_commands_take(folder: Path) -> None:
    text = (folder / "a" / "transcript.jsonl").read_bytes()
    members = {"live/one.jsonl": text, "live/notes.json": b"[1]", "other/two.jsonl": text}
    archive = folder / "recorded.tar.xz"
    archive.write_bytes(packed(members, {}))
    said = run("runs", "list", archive / "live", "--json")
    (row,) = json.loads(said.stdout)["runs"]
    assert row["path"] == str(archive / "live" / "one.jsonl") and row["best"]["ratio"] == 1.9
    assert read(Path(row["path"])).header.task.name == row["task"]
    said = run("runs", "list", archive)
    assert said.stdout.count("1.90x") == 2 and "baseline.cu" in said.stdout


def test_nothing_there(tmp_path: Path) -> None:
    assert run("runs", "list", tmp_path).stdout == f"there are no runs in {tmp_path}\n"
    for words in (("runs", "list"), ("view",)):
        said = run(*words, tmp_path / "none")
        assert isinstance(said.exception, BadInput) and "is not a folder" in str(said.exception)


@pytest.mark.second_tier
def test_served_until_it_is_ended(folder: Path) -> None:
    viewer = subprocess.Popen(
        [sys.executable, "-m", "astra_chat", "view", str(folder)],
        text=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": IMPORT_PATH},
    )
    try:
        assert viewer.stdout is not None
        url = viewer.stdout.readline().strip()
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert b"doubled" in answer.read()
        viewer.send_signal(signal.SIGINT)
        assert viewer.wait(60) == 0
    finally:
        viewer.kill()
        viewer.wait()
