"""Patches are what git and patch apply, byte for byte."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from astra_chat.optimize.written import Change, like, patch_text

OLD = "".join(f"line {i}\n" for i in range(40))
NEW = OLD.replace("line 3\n", "line three\nand more\n").replace("line 30\n", "")


def applied(folder: Path, changes: list[Change], *command: str) -> None:
    for change in changes:
        if change.before is not None:
            (folder / change.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / change.name).write_bytes(change.before.encode())
    text = patch_text(changes, ["what it is", "--not a file"])
    done = subprocess.run(
        command, cwd=folder, input=text.encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, (text, done.stderr, done.stdout)
    for change in changes:
        assert (folder / change.name).read_bytes() == change.after.encode()


CHANGES = {
    "two places": [Change("csrc/a.cu", OLD, NEW)],
    "no newline at the end": [Change("a.cu", OLD.rstrip(), NEW.rstrip())],
    "a newline is added": [Change("a.cu", "x", "x\n")],
    "CRLF": [Change("a.cu", OLD.replace("\n", "\r\n"), NEW.replace("\n", "\r\n"))],
    "form feeds and other line ends": [Change("a.cu", "a\f\x85b\u2028\n", "a\f\x85c\u2028\nd\n")],
    "a name with blanks": [Change("my csrc/my file.cu", OLD, NEW)],
    "a name that is quoted": [Change('a"b\\ü.cu', OLD, NEW)],
    "a new file": [Change("a.cu", OLD, NEW), Change("project/b.cuh", None, "#pragma once\n")],
    "from nothing": [Change("a.cu", "", NEW)],
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    "command", [("git", "apply"), ("patch", "-p1", "--binary")], ids=["git", "patch"]
)
def test_it_applies(tmp_path: Path, changes: list[Change], command: tuple[str, ...]) -> None:
    applied(tmp_path, changes, *command)


def test_git_finds_the_content_that_it_was_made_for(tmp_path: Path) -> None:
    """The index line names blobs as git does, so that it can merge by three ways."""
    change = Change("a.cu", OLD, NEW, "100755")
    (tmp_path / "a.cu").write_text(OLD)
    named = subprocess.run(
        ["git", "hash-object", "a.cu"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert f"index {named.stdout.strip()}.." in patch_text([change], [])
    assert patch_text([change], []).splitlines()[2].endswith(" 100755")


@pytest.mark.parametrize(
    ("before", "expected"),
    [("a\r\nb\r\n", "x\r\ny\r\n"), ("a\r\nb\n", "x\ny\n"), ("a\n", "x\ny\n"), ("", "x\ny\n")],
)
def test_line_ends_are_the_files_own(before: str, expected: str) -> None:
    assert like(before, "x\ny\n") == expected
