from __future__ import annotations

import io
import json
import lzma
import tarfile

import pytest

from astra_chat.tools.recordings.archive import Archive, packed, sha256
from astra_chat.tools.recordings.reading import names_in, read_recorded
from tests.recorded_files import ARCHIVE, EXAMPLES, PLAIN

FILES = {
    "b/run.jsonl": read_recorded(PLAIN / "silu_and_mul-h200.jsonl.xz"),
    "a.json": b'{"schema": "x/1", "us": [1.5, 2.25]}',
    "measured.jsonl": read_recorded(EXAMPLES / "h200/merge_state_v2.jsonl"),
}


@pytest.fixture(scope="module")
def content() -> bytes:
    return packed(FILES, {})


@pytest.mark.second_tier
def test_every_file_comes_back(content: bytes) -> None:
    archive = Archive(content)
    assert {name: archive.read(name) for name in archive.index.members} == FILES
    assert {n: m.sha256 for n, m in archive.index.members.items()} == {
        name: sha256(one) for name, one in FILES.items()
    }


@pytest.mark.second_tier
def test_equal_files_make_an_equal_archive(content: bytes) -> None:
    """Whatever their order."""
    assert packed(dict(reversed(FILES.items())), {}) == content
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(content))) as tar:
        assert {(i.mtime, i.uid, i.gid, i.uname, i.mode) for i in tar} == {(0, 0, 0, "", 0o644)}


def test_other_tools_read_the_tar(content: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:xz") as tar:
        readme, index = (tar.extractfile(name) for name in ("README", "index.json"))
        assert readme and b"recordings unpack" in readme.read()
        assert index and json.load(index)["schema"] == "astra-chat/recordings/1"


@pytest.mark.second_tier
def test_a_default_run_is_only_named() -> None:
    archive = Archive(packed(FILES, {"a_task": FILES["b/run.jsonl"]}))
    member = archive.index.members["b/run.jsonl"]
    assert member.default_of == "a_task" and member.pieces == (0, 0)
    assert archive.read("a.json") == FILES["a.json"]


@pytest.mark.parametrize("name", ["a", "b"])
def test_what_is_no_text_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not text"):
        packed({name: {"a": b"\x04", "b": b"a\0b"}[name]}, {})


def test_the_archive_in_the_repository_holds_its_files_to_the_last_byte() -> None:
    """Four of each kind; `recordings check` asks for all."""
    members = names_in(ARCHIVE)
    assert len(members) > 190 and sum(m.default_of is not None for m in members.values()) == 15
    for ending in (".json", ".jsonl"):
        names = sorted(name for name in members if name.endswith(ending))
        for name in names[:: len(names) // 4]:
            assert sha256(read_recorded(ARCHIVE / name)) == members[name].sha256, name
