"""Zip files of anybody's are read within bounds; equal content makes an equal file."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from astra_chat.transcript import archive
from astra_chat.transcript.archive import read_zip, write_zip
from astra_vgpu.ground.errors import BadInput
from tests.full_disk import full_disk

NONE = "no zip of ours"


def test_what_was_written_is_read_and_the_order_does_not_matter(tmp_path: Path) -> None:
    write_zip(tmp_path / "a.zip", {"one": b"1", "two": b"2"})
    write_zip(tmp_path / "b.zip", {"two": b"2", "one": b"1"})
    assert read_zip(tmp_path / "a.zip", NONE) == {"one": b"1", "two": b"2"}
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with full_disk(10), pytest.raises(BadInput, match="cannot write"):
        write_zip(tmp_path / "c.zip", {"one": b"1"})
    assert not (tmp_path / "c.zip").exists()


def test_a_member_that_unpacks_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_zip(tmp_path / "a.zip", {"bomb": b"0" * 100_000})
    monkeypatch.setattr(archive, "MAX_BYTES", 1000)
    with pytest.raises(BadInput, match="contains more than 1,000 bytes"):
        read_zip(tmp_path / "a.zip", NONE)


def test_too_many_members_and_two_of_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file, pytest.warns(UserWarning):
        file.writestr("one", "1")
        file.writestr("one", "2")
    with pytest.raises(BadInput, match="two with the same name"):
        read_zip(tmp_path / "a.zip", NONE)
    write_zip(tmp_path / "b.zip", {"one": b"1", "two": b"2"})
    monkeypatch.setattr(archive, "MAX_MEMBERS", 1)
    with pytest.raises(BadInput, match="too many members"):
        read_zip(tmp_path / "b.zip", NONE)


def test_what_is_no_zip_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(BadInput, match=NONE):
        read_zip(tmp_path / "a.zip", NONE)
    with pytest.raises(BadInput, match="cannot read"):
        read_zip(tmp_path / "none.zip", NONE)
