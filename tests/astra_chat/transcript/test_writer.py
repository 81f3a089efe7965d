"""Transcripts on disk: a line for each event, never over another file."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from astra_chat.agents.turns import Kernel, Pass, Turn
from astra_chat.transcript.events import RejectedReply
from astra_chat.transcript.reader import read
from astra_chat.transcript.writer import Writer, events_of
from astra_vgpu.ground.errors import BadInput, MissingDependency
from tests.chat_samples import VECTOR, baseline_turns, header, write_transcript
from tests.full_disk import full_disk


def test_lines_are_numbered_and_carry_their_turn(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "new" / "transcript.jsonl", "run-1")
    writer.append(header())
    for turn in baseline_turns():
        writer.append(*events_of(turn, set()))
    lines = [json.loads(line) for line in writer.path.read_text().splitlines()]
    assert [line["seq"] for line in lines] == [0, 1, 2, 3]
    assert [line["turn"] for line in lines] == [0, 1, 2, 3]
    assert {line["run"] for line in lines} == {"run-1"} and {line["v"] for line in lines} == {2}
    assert [line["t"] for line in lines] == sorted(line["t"] for line in lines)


def test_a_line_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "t.jsonl", "r")
    writer.append(header())
    assert writer.path.read_text().endswith("\n"), "without close or flush by us"


def test_a_source_is_stored_once(tmp_path: Path) -> None:
    writer, stored = Writer(tmp_path / "t.jsonl", "r"), set[str]()
    for words in ("first", "again"):
        turn = Turn("coder", Kernel(words=words, source=VECTOR))
        writer.append(*events_of(turn, stored))
    assert writer.path.read_text().count("float4 v = in[i]") == 1


def test_an_existing_transcript_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    path.write_text("precious")
    with pytest.raises(BadInput, match="already exists"):
        Writer(path, "r")
    assert path.read_text() == "precious"


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(BadInput, match=r"out already exists|cannot write"):
        Writer(tmp_path / "out" / "transcript.jsonl", "r")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(BadInput, match="cannot write"):
        Writer(tmp_path / "transcript.jsonl", "r")


def test_a_folder_that_cannot_hold_files() -> None:
    with pytest.raises(BadInput, match="cannot write"):
        Writer(Path("/proc/none/transcript.jsonl"), "r")


def test_a_full_disk_leaves_whole_lines_and_what_follows_stands_behind_them(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    transcript = read(path)
    writer = Writer.go_on(transcript)
    turn = Turn("coder", Kernel(words="x" * 5000, source=VECTOR))
    with (
        full_disk(transcript.size + 3000),
        pytest.raises(MissingDependency, match="cannot write"),
    ):
        writer.append(*events_of(turn, set()))
    assert path.stat().st_size == transcript.size
    writer.append(*events_of(turn, set()))
    writer.close()
    again = read(path)
    assert not again.torn and len(again.records) > len(transcript.records)


def test_a_compressed_transcript_is_not_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(write_transcript(tmp_path / "t.jsonl").read_bytes()))
    with pytest.raises(BadInput, match=r"is compressed and cannot be appended to.*gunzip"):
        Writer.go_on(read(path))


def test_the_disk_is_waited_for_at_turns_that_took_long_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, synced = [100.0], list[int]()
    monkeypatch.setattr("astra_chat.transcript.writer.time.monotonic", lambda: clock[0])
    writer = Writer(tmp_path / "t.jsonl", "r")
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(writer.path.stat().st_size))
    turn = events_of(Turn("planner", Pass(words="none")), set())
    writer.append(header())
    writer.append(*turn)
    sizes = [writer.path.stat().st_size]
    assert synced == sizes, "the first turn"
    clock[0] += 0.9
    writer.append(*turn)
    clock[0] += 60
    writer.append(RejectedReply(speaker="planner", reason="empty"))
    assert synced == sizes, "a quick turn, and what is no turn"
    writer.append(*turn)
    sizes.append(writer.path.stat().st_size)
    assert synced == sizes, "what is said after a minute, although a line stands before it"
    writer.append(*turn)
    writer.close()
    assert synced == [*sizes, writer.path.stat().st_size]


def test_a_disk_that_fails_at_the_end_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: int) -> None:
        raise OSError(5, "Input/output error")

    writer = Writer(tmp_path / "t.jsonl", "r")
    writer.append(header())
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(MissingDependency, match=r"cannot write .*: Input/output error"):
        writer.close()
