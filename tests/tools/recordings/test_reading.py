from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from pathlib import Path

import pytest

from astra_chat.tools.recordings.archive import SCHEMA, ArchiveIndex, Cutter, Member, packed, sha256
from astra_chat.tools.recordings.reading import (
    default_runs,
    expanded,
    in_archive,
    names_in,
    read_recorded,
)
from astra_vgpu.ground.errors import BadInput
from tests.recorded_files import ARCHIVE, LIVE

FILES = {"live/a.jsonl": b'{"v": 1}\n', "live/b.json": b"[2]", "live/more/c.jsonl": b"[3]\n"}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "some.tar.xz"
    path.write_bytes(packed(FILES, {}))
    return path


def test_a_file_a_compressed_one_and_a_member(tmp_path: Path, archive: Path) -> None:
    plain, small, smallest = (tmp_path / f"x.jsonl{end}" for end in ("", ".gz", ".xz"))
    plain.write_bytes(b"text")
    small.write_bytes(gzip.compress(b"text"))
    smallest.write_bytes(lzma.compress(b"text"))
    assert {read_recorded(path) for path in (plain, small, smallest)} == {b"text"}
    assert {name: read_recorded(archive / name) for name in names_in(archive)} == FILES
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "some.tar.xz",
        "x.jsonl",
        "x.jsonl.gz",
        "x.jsonl.xz",
    ]


def test_folders_and_patterns_stand_for_members(archive: Path, tmp_path: Path) -> None:
    def names(*paths: str) -> list[str]:
        found = expanded(archive / path for path in paths)
        return [path.relative_to(archive).as_posix() for path in found]

    assert names("") == names("live") == sorted(FILES)
    assert names("live/*") == ["live/a.jsonl", "live/b.json"]
    assert names("*/*.jsonl", "live/more") == ["live/a.jsonl", "live/more/c.jsonl"]
    assert expanded([tmp_path / "*.jsonl"]) == [tmp_path / "*.jsonl"], "no archive: as it is"
    assert in_archive(archive / "live/a.jsonl") == (archive, "live/a.jsonl")
    assert in_archive(tmp_path / "live/a.jsonl") is None


def test_another_archive_in_its_place_is_read(archive: Path) -> None:
    assert read_recorded(archive / "live/b.json") == b"[2]"
    archive.write_bytes(packed({"live/b.json": b"[22]"}, {}))
    assert read_recorded(archive / "live/b.json") == b"[22]"


def damaged(content: bytes, how: str) -> bytes:
    match how:
        case "cut off":
            return content[: len(content) // 2]
        case "not xz data":
            return b"hello"
        case "corrupt":
            return content[:300] + bytes([content[300] ^ 1]) + content[301:]
        case "no tar":
            return lzma.compress(b"hello")
        case "another tar":
            return lzma.compress(b"\0" * 10240)
    return content


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("cut off", "is cut off"),
        ("not xz data", "not xz data"),
        ("corrupt", "corrupt"),
        ("no tar", "not an archive of recordings"),
        ("another tar", "not an archive of recordings"),
    ],
)
def test_what_is_no_archive_is_refused_in_one_line(archive: Path, how: str, words: str) -> None:
    archive.write_bytes(damaged(archive.read_bytes(), how))
    for asked in (archive / "live/a.jsonl", archive):
        with pytest.raises(BadInput, match=words) as told:
            read_recorded(asked)
        assert "\n" not in str(told.value) and "some.tar.xz" in str(told.value)


@pytest.mark.parametrize("head", ["[]", "{}", "9", "[" * 5000, '{"spent": [9, [1, 0, 0], 3]}'])
def test_samples_that_no_archive_holds_are_refused(tmp_path: Path, head: str) -> None:
    """Somebody may write such samples."""
    made = Cutter()
    place = made.add(f'{{"raw": "\x04{head}\x04"}}'.encode())
    member = Member(sha256="", pieces=place)
    index = ArchiveIndex(schema=SCHEMA, members={"x": member}).model_dump_json(by_alias=True)
    path = tmp_path / "forged.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        for name, part in {"index.json": index.encode(), **made.streams()}.items():
            info = tarfile.TarInfo(name)
            info.size = len(part)
            tar.addfile(info, io.BytesIO(part))
    with pytest.raises(BadInput, match="is damaged: x: "):
        read_recorded(path / "x")


def test_a_member_that_is_not_there(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"contains no live/aa\.jsonl; did you mean .*live/a\.jsonl\?"
    ):
        read_recorded(archive / "live/aa.jsonl")
    with pytest.raises(BadInput, match=r"contains no none/\*"):
        expanded([archive / "none/*"])
    with pytest.raises(BadInput, match=r"name one of its members, as in .*live/a\.jsonl"):
        read_recorded(archive)
    with pytest.raises(BadInput, match=r"cannot read .*no\.tar\.xz: No such file"):
        read_recorded(tmp_path / "no.tar.xz/live/a.jsonl")
    with pytest.raises(BadInput, match="not a regular file"):
        (tmp_path / "folder.tar.xz").mkdir()
        read_recorded(tmp_path / "folder.tar.xz/live/a.jsonl")


def test_compressed_files_that_cannot_be_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    for content, words in ((b"hello", "cannot unpack"), (gzip.compress(b"text")[:-9], "cut off")):
        path.write_bytes(content)
        with pytest.raises(BadInput, match=words):
            read_recorded(path)


def test_a_default_run_lies_in_its_tasks_folder() -> None:
    path = LIVE / "further/rmsnorm-sglang-team-1.jsonl"
    assert names_in(ARCHIVE)["live/further/rmsnorm-sglang-team-1.jsonl"].default_of == "rmsnorm"
    assert read_recorded(path) == default_runs()["rmsnorm"]


@pytest.mark.parametrize("task", ["rmsnorm", "../tests", "no_such_task"])
def test_no_other_run_stands_in_for_a_default_run(tmp_path: Path, task: str) -> None:
    """An archive names no file outside the tasks' folders."""
    path = tmp_path / "old.tar.xz"
    path.write_bytes(packed(FILES, {task: FILES["live/a.jsonl"]}))
    assert names_in(path)["live/a.jsonl"].sha256 == sha256(FILES["live/a.jsonl"])
    with pytest.raises(BadInput, match=r"now contains another run|cannot read"):
        read_recorded(path / "live/a.jsonl")
