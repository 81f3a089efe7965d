"""Many recorded files as one archive: a tar, compressed as a whole by xz.

The tar does not hold the files themselves but what they are made of, so that hundreds of alike
files take little: pieces of text, numbers, samples. index.json says what each file is made of,
and its sha256. Equal files make an equal archive: names are sorted, times and owners are 0.

Texts of JSON are cut at their numbers. What is between two numbers repeats and is stored once;
numbers are stored by what is before them, so that like lies beside like.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from astra_chat.tools.recordings.samples import Cursor, Streams, counted, packed_again

NUMBER = re.compile(rb'(?<=[ :\[,])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?=[,\]}])|(?<=")[0-9a-f]{64}(?=")')
"""The numbers of a text; a sha256 counts as one."""
MOST_TEXT_BYTES = 2**27
"""Bytes of a text, at most: an archive may come from anybody, and a piece of it may repeat."""
SHORT = 12
"""A float of fewer characters takes no fewer bytes as a double."""
DOUBLE, SHA256 = b"d", b"h"
"""What stands among the numbers for one that lies in a stream of its own."""
BETWEEN = b"\0"
"""The pieces. No JSON has such a byte."""
Positions = NDArray[np.int64]


@dataclass
class Cutter:
    """Texts, cut one after another."""

    known: dict[bytes, int] = field(default_factory=dict)
    """Pieces by their number."""
    order: list[int] = field(default_factory=list)
    numbers: list[bytes] = field(default_factory=list)
    """After each of `order`."""

    def add(self, text: bytes) -> tuple[int, int]:
        """Where its pieces lie in `order`: the first, and how many. Raises ValueError."""
        if BETWEEN in text:
            raise ValueError("not text: it contains a null byte")
        first = len(self.order)
        place = 0
        for found in NUMBER.finditer(text):
            self._add(text[place : found.start()], found[0])
            place = found.end()
        self._add(text[place:], b"")
        return first, len(self.order) - first

    def _add(self, piece: bytes, number: bytes) -> None:
        self.order.append(self.known.setdefault(piece, len(self.known)))
        self.numbers.append(number)

    def streams(self) -> dict[str, bytes]:
        """All that `Pieces` reads."""
        doubles, hashes, written = list[float](), list[bytes](), list[bytes]()
        order = np.array(self.order, "<u4")
        for place in np.argsort(order, kind="stable").tolist():
            number = self.numbers[place]
            if len(number) == 64:
                hashes.append(bytes.fromhex(number.decode()))
                number = SHA256
            elif len(number) >= SHORT and b"." in number and _is_repr(number):
                doubles.append(float(number))
                number = DOUBLE
            written.append(number + b"\n")
        return {
            "pieces": BETWEEN.join(self.known),
            "order": order.tobytes(),
            "numbers": b"".join(written),
            "doubles": np.array(doubles, "<f8").tobytes(),
            "hashes": b"".join(hashes),
        }


def _is_repr(number: bytes) -> bool:
    return repr(float(number)).encode() == number


class Pieces:
    """Reads texts back that a Cutter cut."""

    def __init__(self, streams: Mapping[str, bytes]) -> None:
        """Raises KeyError or ValueError for streams that no Cutter left."""
        self._pieces = streams["pieces"].split(BETWEEN)
        self._order = np.frombuffer(streams["order"], "<u4").astype(np.int64)
        self._numbers = streams["numbers"]
        signs = np.frombuffer(self._numbers, np.uint8)
        self._ends = np.flatnonzero(signs == ord("\n"))
        self._starts = np.concatenate([[0], self._ends[:-1] + 1])
        if len(self._ends) != len(self._order):
            raise ValueError("numbers are missing")
        single = self._ends - self._starts == 1
        firsts = signs[self._starts] if len(signs) else signs
        self._doubles = np.frombuffer(streams["doubles"], "<f8")
        self._hashes = streams["hashes"]
        self._nth_double = np.cumsum(single & (firsts == DOUBLE[0])) - 1
        self._nth_hash = np.cumsum(single & (firsts == SHA256[0])) - 1
        self._columns: Positions = np.empty(len(self._order), np.int64)
        """Where the number after each piece lies."""
        self._columns[np.argsort(self._order, kind="stable")] = np.arange(len(self._order))

    def text(self, first: int, count: int) -> bytes:
        """The text of these pieces. Raises ValueError or IndexError."""
        if not 0 <= first <= first + count <= len(self._order):
            raise ValueError("pieces are missing")
        parts, size = list[bytes](), 0
        for place in range(first, first + count):
            piece = self._pieces[self._order[place]]
            parts += piece, self._number(int(self._columns[place]))
            if (size := size + len(piece)) > MOST_TEXT_BYTES:
                raise ValueError(f"more than {MOST_TEXT_BYTES:,} bytes")
        return b"".join(parts)

    def _number(self, place: int) -> bytes:
        number = self._numbers[self._starts[place] : self._ends[place]]
        if number == DOUBLE:
            return repr(float(self._doubles[self._nth_double[place]])).encode()
        if number == SHA256:
            first = 32 * int(self._nth_hash[place])
            return self._hashes[first : first + 32].hex().encode()
        return number


SCHEMA: Literal["astra-chat/recordings/1"] = "astra-chat/recordings/1"
MOST_BYTES = 2**28
"""Bytes that an archive unpacks to, at most."""
MOST_MEMORY = 2**28
"""Bytes that the decompressor takes, at most."""
README = b"""Recorded runs and measurements of Astra, in pieces. In Astra's repository:
python -m lab.recordings unpack ARCHIVE.tar.xz FOLDER
"""
SAMPLES = re.compile(rb'"(e[A-Za-z0-9+/]{40,}={0,2})"')
"""A text that may be a case's packed samples."""
MARK = b"\x04"
"""Before and after what they become. No JSON has such a byte."""
MARKED = re.compile(rb'"\x04([^\x04]*)\x04"')
XZ = b"\xfd7zXZ\0"
TAR_END = b"\0" * 1024
GROUPS: Sequence[tuple[Sequence[str], dict[str, int]]] = (
    (("README", "index.json", "pieces", "numbers"), {"lc": 4, "lp": 0, "pb": 0}),
    (("order",), {"lc": 0, "lp": 2, "pb": 2}),
    (("doubles",), {"lc": 0, "lp": 3, "pb": 3}),
    ((), {"lc": 0, "lp": 0, "pb": 0}),
)
"""Streams that are compressed together, and how many bits of context and place predict a byte of
them (xz(1)). The last has all others."""


class Member(BaseModel):
    """A file of an archive."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str
    default_of: str | None = None
    """The task whose default run it is: the file lies in the task's folder, not here."""
    pieces: tuple[int, int] = (0, 0)
    streams: dict[str, int] = {}
    """Where its samples begin in each."""


class ArchiveIndex(BaseModel):
    """What an archive holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_: Literal["astra-chat/recordings/1"] = Field(alias="schema")
    members: dict[str, Member]


class Archive:
    """An archive in memory; its files are put together when they are asked for."""

    def __init__(self, content: bytes) -> None:
        """Raises ValueError, KeyError, EOFError, lzma.LZMAError or tarfile.TarError for what is no
        archive, or a part of one."""
        streams = _untarred(_unpacked(content))
        self.index = ArchiveIndex.model_validate_json(streams.pop("index.json"))
        self._pieces = Pieces(streams)
        self._streams = streams

    def read(self, name: str) -> bytes:
        """A file that is stored here. Raises KeyError where there is none of this name, and
        ValueError or IndexError where the archive is damaged."""
        member = self.index.members[name]
        cursor = Cursor(self._streams, dict(member.streams))
        text = self._pieces.text(*member.pieces)
        return MARKED.sub(lambda found: b'"' + packed_again(found[1], cursor) + b'"', text)


def packed(files: Mapping[str, bytes], defaults: Mapping[str, bytes]) -> bytes:
    """An archive of these files by name. `defaults`: default runs by task; a file that equals one
    is not stored a second time. Raises ValueError for a file that is not text."""
    tasks = {sha256(content): task for task, content in defaults.items()}
    cutter, samples, members = Cutter(), Streams(), dict[str, Member]()
    for name in sorted(files):
        content = files[name]
        hashed = sha256(content)
        if task := tasks.get(hashed):
            members[name] = Member(sha256=hashed, default_of=task)
            continue
        if MARK in content:
            raise ValueError(f"{name} is not text")
        starts = samples.ends()
        text = SAMPLES.sub(partial(_counted, streams=samples), content)
        members[name] = Member(
            sha256=hashed, pieces=cutter.add(text), streams=starts if MARK in text else {}
        )
    index = ArchiveIndex(schema=SCHEMA, members=members).model_dump_json(
        by_alias=True, exclude_defaults=True
    )
    parts = {"README": README, "index.json": index.encode(), **cutter.streams()}
    return _packed({**parts, **{n: bytes(c) for n, c in samples.content.items()}})


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _counted(found: re.Match[bytes], *, streams: Streams) -> bytes:
    head = counted(found[1], streams)
    return found[0] if head is None else b'"' + MARK + head + MARK + b'"'


def _packed(streams: Mapping[str, bytes]) -> bytes:
    """One xz stream a group, one after another, as xz(1) reads them, too."""
    named = {name for names, _ in GROUPS for name in names}
    parts = []
    for names, bits in GROUPS:
        tar = b"".join(_tarred(name, streams[name]) for name in names)
        if not names:
            tar = b"".join(_tarred(name, streams[name]) for name in sorted(streams.keys() - named))
            tar += TAR_END
        filters = [
            {
                "id": lzma.FILTER_LZMA2,
                "preset": 9 | lzma.PRESET_EXTREME,
                "dict_size": 2**26,
                **bits,
            }
        ]
        parts.append(lzma.compress(tar, filters=filters))
    return b"".join(parts)


def _tarred(name: str, content: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    return info.tobuf(tarfile.USTAR_FORMAT) + content + b"\0" * (-len(content) % 512)


def _untarred(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
        found = ((info.name, tar.extractfile(info)) for info in tar)
        return {name: file.read() for name, file in found if file}


def _unpacked(content: bytes) -> bytes:
    """Raises EOFError where the last xz stream is cut off, and ValueError for too much."""
    if not content.startswith(XZ):
        raise ValueError("not xz data")
    parts, left = list[bytes](), MOST_BYTES
    while content:
        stream = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MOST_MEMORY)
        parts.append(stream.decompress(content, left))
        left -= len(parts[-1])
        if not stream.eof:
            raise ValueError("too large") if left <= 0 else EOFError("cut off")
        content = stream.unused_data
    return b"".join(parts)
