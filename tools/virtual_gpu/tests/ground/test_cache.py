"""The cache: entries appear whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from astra_vgpu.ground.cache import cache_folder, new_entry, room_in
from astra_vgpu.ground.errors import MissingDependency


def test_an_entry_appears_when_the_block_ends(tmp_path: Path) -> None:
    with new_entry(tmp_path / "entry") as scratch:
        (scratch / "file").write_text("x")
        assert not (tmp_path / "entry").exists()
    assert (tmp_path / "entry" / "file").read_text() == "x"


def test_a_failed_block_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), new_entry(tmp_path / "entry") as scratch:
        (scratch / "file").write_text("x")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_the_first_of_two_wins(tmp_path: Path) -> None:
    with new_entry(tmp_path / "entry") as slow:
        (slow / "file").write_text("slow")
        with new_entry(tmp_path / "entry") as quick:
            (quick / "file").write_text("quick")
    assert (tmp_path / "entry" / "file").read_text() == "quick"
    assert [p.name for p in tmp_path.iterdir()] == ["entry"]


def test_a_cache_that_cannot_be_made_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASTRA_CACHE", str(tmp_path / "file"))
    with pytest.raises(MissingDependency, match="set ASTRA_CACHE"):
        cache_folder("builds")


def test_a_full_disk_is_what_the_environment_lacks(tmp_path: Path) -> None:
    with pytest.raises(MissingDependency, match="no space left"), room_in(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(PermissionError), room_in(tmp_path):
        raise PermissionError(errno.EPERM, "Not permitted")
