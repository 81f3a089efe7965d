"""`python -m lab.recordings`, and runs in archives on the command line."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from pathlib import Path

import pytest

from astra_chat.cli.main import main as astra_chat
from astra_chat.tools.recordings.reading import names_in, read_recorded
from astra_chat.tools.task.folder import BUILTIN, TRANSCRIPT
from lab.recordings import main
from tests.recorded_files import PLAIN

RUN = PLAIN / "silu_and_mul-h200.jsonl.xz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files as they come from runs, compressed or not."""
    found = tmp_path / "found"
    (found / "live/more").mkdir(parents=True)
    (found / "live/a.json").write_text('{"us": [1.5, 2]}')
    (found / "live/more/b.jsonl.gz").write_bytes(gzip.compress(read_recorded(RUN)))
    shutil.copy(BUILTIN / "rmsnorm" / TRANSCRIPT, found / "live/rmsnorm.jsonl.xz")
    return found


def told(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["recordings", *map(str, words)])
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_a_packed_folder_is_the_same_whenever_it_is_packed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, out = (tmp_path / name for name in ("a.tar.xz", "b.tar.xz", "out"))
    assert told(monkeypatch, "pack", folder, first) == 0
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))
    assert told(monkeypatch, "pack", folder, second) == 0
    assert first.read_bytes() == second.read_bytes()
    assert list(names_in(first)) == ["live/a.json", "live/more/b.jsonl", "live/rmsnorm.jsonl"]
    assert names_in(first)["live/rmsnorm.jsonl"].default_of == "rmsnorm"
    assert told(monkeypatch, "check", first) == 0 and told(monkeypatch, "unpack", first, out) == 0
    assert (out / "live/more/b.jsonl").read_bytes() == read_recorded(RUN)
    third = tmp_path / "c.tar.xz"
    assert told(monkeypatch, "pack", out, third) == 0
    assert third.read_bytes() == first.read_bytes()


def test_a_run_is_added_and_removed(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    archive, new = tmp_path / "a.tar.xz", tmp_path / "transcript.jsonl"
    told(monkeypatch, "pack", folder, archive)
    before = archive.read_bytes()
    new.write_bytes(read_recorded(RUN).replace(b"rows", b"lines"))
    assert told(monkeypatch, "add", archive, new, "live/new.jsonl") == 0
    assert read_recorded(archive / "live/new.jsonl") == new.read_bytes()
    assert told(monkeypatch, "list", archive) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in listed] == sorted([*names_in(archive)])
    assert "sglang_kernels/rmsnorm" in listed[-1]
    assert told(monkeypatch, "remove", archive, "live/new.jsonl") == 0
    assert archive.read_bytes() == before


def test_nothing_is_unpacked_outside_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, file = tmp_path / "a.tar.xz", tmp_path / "x.json"
    (tmp_path / "one").mkdir()
    (tmp_path / "one/x.json").write_text("{}")
    file.write_text("{}")
    told(monkeypatch, "pack", tmp_path / "one", archive)
    told(monkeypatch, "add", archive, file, "../evil.json")
    assert told(monkeypatch, "unpack", archive, tmp_path / "out") == 2
    assert "outside" in capsys.readouterr().err and not (tmp_path / "evil.json").exists()


@pytest.mark.parametrize("words", [("remove", "none"), ("check",), ("add", "none", "x.json")])
def test_bad_input_is_one_line(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    archive = tmp_path / "a.tar.xz"
    archive.write_bytes(b"hello")
    assert told(monkeypatch, words[0], archive, *words[1:]) == 2
    error = capsys.readouterr().err
    assert error.startswith("astra-chat: ") and error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("replay", "FILE", "--quiet"), None),
        (("report", "FILE", "-o", "OUT"), None),
        (("replay", "FILE.jsonl"), "contains no live/more/b.jsonl.jsonl; did you mean"),
        (("verify", "CUT"), "is cut off"),
        (("report", "NONE", "-o", "OUT"), "not xz data"),
        (("run", "--resume", "FILE", "--rounds", "9"), "is in an archive"),
    ],
)
def test_members_on_the_command_line(
    words: tuple[str, ...],
    said: str | None,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    archive, cut, none = (tmp_path / f"{name}.tar.xz" for name in ("a", "cut", "none"))
    told(monkeypatch, "pack", folder, archive)
    cut.write_bytes(archive.read_bytes()[:-200])
    none.write_bytes(b"hello")
    names = {"OUT": tmp_path / "out.html", "CUT": cut / "live/x.jsonl", "NONE": none / "x.jsonl"}
    asked = [
        str(names.get(word, word)).replace("FILE", str(archive / "live/more/b.jsonl"))
        for word in words
    ]
    monkeypatch.setattr(sys, "argv", ["astra-chat", *asked])
    with pytest.raises(SystemExit) as ended:
        astra_chat()
    assert (ended.value.code or 0) == (2 if said else 0)
    shown = capsys.readouterr()
    assert said is None or (said in shown.err and "Traceback" not in shown.err)
    assert sorted(path.name for path in tmp_path.glob("*.tar.xz")) == [
        "a.tar.xz",
        "cut.tar.xz",
        "none.tar.xz",
    ]
