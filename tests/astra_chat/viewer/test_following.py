"""A transcript that grows is read once: what is new, and nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.report.turns import texts_of
from astra_chat.transcript.reader import read
from astra_chat.viewer.following import Following
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import write_transcript


@pytest.fixture
def lines(tmp_path: Path) -> list[bytes]:
    return write_transcript(tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)


def test_line_by_line(tmp_path: Path, lines: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grows.jsonl"
    path.write_bytes(b"".join(lines[:4]))
    following = Following(path)
    shown = [turn.title for turn in following.news(0).turns]
    monkeypatch.setattr("astra_chat.viewer.following.read", None)  # the whole file, once more
    for line in lines[4:]:
        with path.open("ab") as file:
            file.write(line[:10])
            file.flush()
            assert following.news(len(shown)).turns == [], "half a line"
            file.write(line[10:])
        shown += [turn.title for turn in following.news(len(shown)).turns]
    monkeypatch.undo()
    whole = read(tmp_path / "whole.jsonl").records
    assert shown == [turn.title for turn in texts_of(whole).turns]
    news = following.news(0)
    assert news.transcript.records == whole and news.transcript.size == path.stat().st_size
    assert not following.running()


def test_another_file_in_its_place(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "grows.jsonl"
    path.write_bytes(b"".join(lines))
    following = Following(path)
    every = len(following.news(0).turns)
    path.unlink()
    path.write_bytes(b"".join(lines[:5]))
    assert 0 < len(following.news(0).turns) < every
    with path.open("ab") as file:
        file.write(lines[-1])  # lines between are missing
    with pytest.raises(BadInput, match="lines are missing"):
        following.news(0)
    path.unlink()
    with pytest.raises(BadInput, match="cannot read"):
        following.news(0)
