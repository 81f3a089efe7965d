"""The list says what each run does, and holds nothing from elsewhere."""

from __future__ import annotations

import gzip
import lzma
import os
from pathlib import Path

import pytest

from astra_chat.transcript.reader import read
from astra_chat.transcript.under_way import locked_inodes
from astra_chat.transcript.writer import Writer
from astra_chat.viewer.runs import Runs, transcripts_in
from tests.chat_samples import write_transcript


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_transcript(tmp_path / "a" / "transcript.jsonl")
    return tmp_path


def test_what_came_of_a_run(root: Path) -> None:
    (row,) = Runs(root).list()
    assert (row.state, row.path, row.task) == ("ended", "a/transcript.jsonl", "doubled")
    assert row.best is not None and row.best.ratio == 1.9 and row.basis == "estimated"
    assert row.folder == "." and row.model_copy(update={"path": "x/b.jsonl"}).folder == "x"
    assert row.words and row.turns == 8 and row.rounds == 1 and row.cost_usd is None


@pytest.mark.parametrize("lines", [3, 8, 12])
def test_killed_or_under_way(root: Path, lines: int) -> None:
    """The lock that a run holds on its transcript tells the two apart."""
    path = root / "a" / "transcript.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
    runs = Runs(root)
    assert [(r.state, r.words) for r in runs.list()] == [("stopped", "killed before it ended")]
    writer = Writer.go_on(read(path))
    assert path.stat().st_ino in locked_inodes()
    assert runs.list()[0].state == "running", "though the file did not change"
    writer.close()
    assert runs.list()[0].state == "stopped"


def test_only_transcripts_and_no_links(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = write_transcript(tmp_path_factory.mktemp("other") / "t.jsonl")
    (root / "link.jsonl").symlink_to(elsewhere)
    (root / "folder").symlink_to(elsewhere.parent)
    (root / "other.jsonl").write_text('{"hello": 1}\n')
    (root / "notes.txt").write_bytes(elsewhere.read_bytes())
    os.mkfifo(root / "pipe.jsonl")
    assert list(transcripts_in(root)) == [root / "a" / "transcript.jsonl"]


def test_compressed_ones_are_listed_too(root: Path) -> None:
    whole = (root / "a" / "transcript.jsonl").read_bytes()
    (root / "b.jsonl.xz").write_bytes(lzma.compress(whole))
    (root / "c.jsonl.gz").write_bytes(gzip.compress(whole))
    (root / "d.jsonl.xz").write_bytes(lzma.compress(b"{}"))
    (root / "e.jsonl.gz").write_bytes(whole)
    found = {row.path: row.state for row in Runs(root).list()}
    assert found == dict.fromkeys(("a/transcript.jsonl", "b.jsonl.xz", "c.jsonl.gz"), "ended")


def test_a_broken_one_is_said_and_the_others_stay(root: Path) -> None:
    bad = root / "bad" / "transcript.jsonl"
    bad.parent.mkdir()
    lines = (root / "a" / "transcript.jsonl").read_text().splitlines(keepends=True)
    bad.write_text("".join([*lines[:3], *lines[4:]]))
    rows = {row.path: row for row in Runs(root).list()}
    assert rows["bad/transcript.jsonl"].state == "unreadable"
    assert rows["bad/transcript.jsonl"].words.startswith("bad/transcript.jsonl, line 4")
    assert rows["a/transcript.jsonl"].state == "ended"


def test_keys_name_what_lies_in_the_folder_only(root: Path) -> None:
    runs = Runs(root)
    (row,) = runs.list()
    assert runs.path_of(row.key) == root / "a" / "transcript.jsonl"
    assert runs.path_of("../../etc/passwd") is None and runs.path_of("") is None
