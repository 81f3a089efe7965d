"""The lines of a transcript or recording, bounded before anything is made of them: the file may
come from anybody."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from astra_chat.tools.recordings.reading import in_archive, read_recorded
from astra_chat.tools.system.files import open_regular
from astra_vgpu.ground.errors import BadInput

MAX_FILE_BYTES = 2**27
MAX_LINE_BYTES = 2**22
"""Bytes of a line at most: a source of the most characters that a model may give
(agents/reply_errors.py), each escaped."""
MAX_VALUES = 1_000_000
"""Values of JSON in the whole file at most, texts counted as one: some 600 evaluations, or 4,000
turns. A value may take a hundred times the memory of its text."""
STRING = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)', re.DOTALL)
DIGITS = bytes.maketrans(b"123456789", b"000000000")
LONG_NUMBER = b"0" * 25
"""Part of a line, after DIGITS, by which a number has too many digits: no number of ours has as
many in a row; Python takes seconds for one of a million."""


@dataclass(frozen=True)
class Lines:
    """The whole lines of a file."""

    texts: list[bytes]
    torn: bool
    """Half a line followed them."""
    size: int
    """Bytes of the whole lines."""


def read_lines(path: Path) -> Lines:
    """Read the whole lines of a file. Raises BadInput, in one line, for what cannot be read, is no
    regular file or exceeds a bound."""
    texts: list[bytes] = []
    size = values = 0
    torn = exact = False
    with _open(path) as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            where = f"{path}, line {len(texts) + 1}"
            if len(line) > MAX_LINE_BYTES:
                raise BadInput(f"{where} is longer than {MAX_LINE_BYTES:,} bytes")
            if torn := not line.endswith(b"\n"):
                break
            if (size := size + len(line)) > MAX_FILE_BYTES:
                raise BadInput(f"{where}: unpacked, the file exceeds {MAX_FILE_BYTES:,} bytes")
            values += _values(line) if exact else _marks(line)
            if _long_number(line) and _long_number(STRING.sub(b"", line)):
                raise BadInput(f"{where}: a number has too many digits")
            texts.append(line[:-1])
            if values > MAX_VALUES and not exact:
                exact, values = True, sum(map(_values, texts))
            if values > MAX_VALUES:
                raise BadInput(f"{where}: the file contains more than {MAX_VALUES:,} values")
    return Lines(texts, torn, size)


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO | gzip.GzipFile | lzma.LZMAFile]:
    """A file, unpacked where its name says that it is compressed or lies in an archive. What cannot
    be read becomes BadInput."""
    if in_archive(path):
        yield io.BytesIO(read_recorded(path))
        return
    try:
        with open_regular(path, MAX_FILE_BYTES) as stored:
            yield _unpacking(path, stored)
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        raise BadInput(f"cannot unpack {path}: {error}") from None
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise BadInput(f"cannot read {path}: {error}") from None


def _unpacking(path: Path, stored: BinaryIO) -> BinaryIO | gzip.GzipFile | lzma.LZMAFile:
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=stored)
    return lzma.LZMAFile(stored) if path.suffix == ".xz" else stored


def _long_number(line: bytes) -> bool:
    return LONG_NUMBER in line.translate(DIGITS)


def _marks(line: bytes) -> int:
    """Returns at least as many as the line holds values: texts may hold such characters too."""
    return sum(line.count(mark) for mark in (b"{", b"[", b","))


def _values(line: bytes) -> int:
    """Returns how many values a line of JSON may hold, texts counted as one each."""
    return _marks(STRING.sub(b"", line))
