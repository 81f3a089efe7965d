"""Where a file stands in a repository, and how it differs from what was committed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from astra_chat.optimize.repository import blob_id, head_of, place_of, warning
from astra_vgpu.ground.errors import BadInput


def git(folder: Path, *words: str) -> str:
    me = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run([*me, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Committed in a repository, which is the current folder."""
    folder = tmp_path / "repository"
    (folder / "csrc").mkdir(parents=True)
    path = folder / "csrc" / "a b.cu"
    path.write_text("x\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    monkeypatch.chdir(folder)
    return path


def test_a_committed_file(file: Path) -> None:
    place = place_of(Path("csrc/a b.cu"))
    assert (place.name, place.in_git, place.mode) == ("csrc/a b.cu", True, "100644")
    assert warning(place) is None and head_of(place) == git(file.parent, "rev-parse", "HEAD")
    assert blob_id(b"x\n") == git(file.parent, "rev-parse", "HEAD:csrc/a b.cu")
    file.chmod(0o755)
    assert place_of(file).mode == "100755"


def test_a_dirty_repository_is_said_in_one_line_and_left_as_it_is(file: Path) -> None:
    (file.parent / "else.cu").write_text("")
    assert warning(place_of(file)) is None
    assert "else.cu is not in HEAD" in str(warning(place_of(file.parent / "else.cu")))
    file.write_text("y\n")
    git(file.parent, "add", "-A")
    index = (file.parents[1] / ".git" / "index").read_bytes()
    said = warning(place_of(file))
    assert said is not None and said.startswith("csrc/a b.cu differs from HEAD")
    assert (file.parents[1] / ".git" / "index").read_bytes() == index


def test_a_repository_without_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init", "-q")
    (tmp_path / "a.cu").write_text("")
    place = place_of(Path("a.cu"))
    assert head_of(place) == "" and "not in HEAD" in str(warning(place))


def test_a_file_outside(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in no repository, in another than the current folder's, or behind a link."""
    outside = tmp_path / "b.cu"
    outside.write_text("")
    place = place_of(outside)
    assert (place.name, place.top, head_of(place)) == ("b.cu", tmp_path, "")
    assert "is not in a git repository" in str(warning(place))
    (tmp_path / "other").mkdir()
    git(tmp_path / "other", "init", "-q")
    monkeypatch.chdir(tmp_path / "other")
    assert "is not in this repository" in str(warning(place_of(file)))
    link = file.with_name("link.cu")
    link.symlink_to(outside)
    with pytest.raises(BadInput, match="is a link"):
        place_of(link)
