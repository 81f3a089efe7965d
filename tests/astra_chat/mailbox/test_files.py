"""Files that others write, too: whole or not there, read within bounds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from astra_chat.mailbox.files import MAX_BYTES, Unreadable, read_text, write_new
from astra_vgpu.ground.errors import MissingDependency
from tests.full_disk import full_disk


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    assert read_text(path) is None
    assert write_new(path, "half a \ud800 character\n")
    assert read_text(path) == "half a ? character\n"
    assert [one.name for one in tmp_path.iterdir()] == ["a.md"]


def test_the_first_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    assert write_new(path, "first") and not write_new(path, "second")
    assert read_text(path) == "first"


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    with full_disk(100), pytest.raises(MissingDependency, match=r"cannot write .*a\.md: "):
        write_new(path, "x" * 10_000)
    assert not list(tmp_path.iterdir())


def test_what_is_no_text_is_said(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "long").write_bytes(b"x" * (MAX_BYTES + 1))
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, said in {
        "bytes": "not UTF-8",
        "long": "larger than",
        "link": "a link",
        "folder": "not a regular",
        "pipe": "not a regular",
    }.items():
        with pytest.raises(Unreadable, match=said):
            read_text(tmp_path / name)
