"""Lines of a file that may come from anybody: whole, or refused at a bound."""

from __future__ import annotations

import gzip
import json
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astra_chat.transcript import lines
from astra_chat.transcript.lines import read_lines
from astra_vgpu.ground.errors import BadInput


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "f.jsonl"


@pytest.mark.parametrize(
    ("data", "texts", "torn", "size"),
    [
        (b"", [], False, 0),
        (b"a", [], True, 0),
        (b"a\n", [b"a"], False, 2),
        (b"a\n\nb\nhalf", [b"a", b"", b"b"], True, 5),
    ],
)
def test_whole_lines(path: Path, data: bytes, texts: list[bytes], torn: bool, size: int) -> None:
    path.write_bytes(data)
    found = read_lines(path)
    assert (found.texts, found.torn, found.size) == (texts, torn, size)


def test_values_are_counted_outside_of_texts(path: Path, monkeypatch: Any) -> None:
    """Sources are full of commas and braces, and are one value each."""
    line = json.dumps({"text": '{"a,b\\",[[[,' * 1000, "list": [1, 2, 3]})
    path.write_text(line + "\n")
    monkeypatch.setattr(lines, "MAX_VALUES", 5)
    assert read_lines(path).texts == [line.encode()]
    monkeypatch.setattr(lines, "MAX_VALUES", 4)
    with pytest.raises(BadInput, match="line 1: the file contains more than 4 values"):
        read_lines(path)
    path.write_text("[1]\n" * 5)
    with pytest.raises(BadInput, match="line 5"):
        read_lines(path)


def test_bounds_of_line_and_file(path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 10)
    path.write_bytes(b"123456789\n")
    assert len(read_lines(path).texts) == 1
    path.write_bytes(b"1234567890\n")
    with pytest.raises(BadInput, match="longer than 10 bytes"):
        read_lines(path)
    monkeypatch.setattr(lines, "MAX_FILE_BYTES", 10)
    with pytest.raises(BadInput, match="has 11 bytes; at most 10 are allowed"):
        read_lines(path)


def test_numbers_end(path: Path) -> None:
    path.write_text(f'{{"text": "{"1" * 99}", "seed": {2**63}}}\n')
    assert len(read_lines(path).texts) == 1
    path.write_text(f'{{"seed": {10**25}}}\n')
    with pytest.raises(BadInput, match="line 1: a number has too many digits"):
        read_lines(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ".", "none", "a\0b", "x" * 5000):
        with pytest.raises(BadInput, match="cannot read"):
            read_lines(tmp_path / name)


@pytest.mark.parametrize(("end", "compress"), [("gz", gzip.compress), ("xz", lzma.compress)])
def test_a_compressed_file_is_bounded_as_it_unpacks(
    tmp_path: Path, monkeypatch: Any, end: str, compress: Callable[[bytes], bytes]
) -> None:
    path, data = tmp_path / f"f.jsonl.{end}", b"first\nsecond\nhalf"
    path.write_bytes(packed := compress(data))
    found = read_lines(path)
    assert (found.texts, found.torn, found.size) == ([b"first", b"second"], True, 13)
    for damaged in (packed[:-9], data, packed[:12] + bytes(9) + packed[21:]):
        path.write_bytes(damaged)
        with pytest.raises(BadInput, match="cannot unpack"):
            read_lines(path)
    path.write_bytes(compress(b"0123456789\n" * 1000))
    monkeypatch.setattr(lines, "MAX_FILE_BYTES", 1000)
    with pytest.raises(BadInput, match=r"line 91: unpacked, the file exceeds 1,000 bytes"):
        read_lines(path)
