from __future__ import annotations

import io
import json
import lzma
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_chat.tools.recordings.archive import Archive, Cutter, Pieces, packed, sha256
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


TEXTS = (
    b"",
    b"no number",
    b'{"a": 1, "b": [1.5, -2e-05, 0.1], "sha": "' + b"0f" * 32 + b'"}\n',
    b'{"a": 2, "b": [11.552000418305397, 1.0000000000000000000001, 1e999], "sha": "'
    + b"a" * 64
    + b'"}\n',
    b'["d", "h", "1", "\xc3\xa9", 007, -0.0, 1E5, 12345678901234567890]',
)


def read_again(texts: tuple[bytes, ...]) -> list[bytes]:
    cutter = Cutter()
    places = [cutter.add(text) for text in texts]
    found = Pieces(cutter.streams())
    return [found.text(*place) for place in places]


def test_texts_come_back() -> None:
    assert read_again(TEXTS) == list(TEXTS)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.text(alphabet='0123456789.e-+[]{},: "dh\\aé\n'), max_size=4))
def test_any_text_comes_back(texts: list[str]) -> None:
    encoded = tuple(text.encode() for text in texts)
    assert read_again(encoded) == list(encoded)


def test_what_repeats_is_stored_once_and_numbers_by_what_stands_before_them() -> None:
    cutter = Cutter()
    for n in range(3):
        cutter.add(b'{"rows": %d, "us": %d}' % (n, 10 + n))
    streams = cutter.streams()
    assert streams["pieces"].split(b"\0") == [b'{"rows": ', b', "us": ', b"}"]
    assert streams["numbers"].split() == [b"0", b"1", b"2", b"10", b"11", b"12"]


def test_pieces_that_are_not_there_are_an_error() -> None:
    cutter = Cutter()
    first, count = cutter.add(TEXTS[2])
    streams = cutter.streams()
    for place in ((first, count + 1), (first - 1, count), (first, -1)):
        with pytest.raises(ValueError, match="missing"):
            Pieces(streams).text(*place)
    with pytest.raises(ValueError, match="missing"):
        Pieces({**streams, "numbers": b"1\n"})


def test_a_piece_that_repeats_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    cutter = Cutter()
    place = cutter.add(b"[1, " + b"1" * 10 + b"]" + b'["a very long text", 1]' * 100)
    monkeypatch.setattr("astra_chat.tools.recordings.archive.MOST_TEXT_BYTES", 1000)
    with pytest.raises(ValueError, match="more than 1,000 bytes"):
        Pieces(cutter.streams()).text(*place)


def test_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="null byte"):
        Cutter().add(b"a\0b")
