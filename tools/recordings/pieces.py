"""Texts of JSON cut at their numbers. What stands between two numbers repeats and is stored once;
numbers are stored by what stands before them, so that like lies beside like."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

NUMBER = re.compile(rb'(?<=[ :\[,])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?=[,\]}])|(?<=")[0-9a-f]{64}(?=")')
"""The numbers of a text; a sha256 counts as one."""
MOST_BYTES = 2**27
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
            if (size := size + len(piece)) > MOST_BYTES:
                raise ValueError(f"more than {MOST_BYTES:,} bytes")
        return b"".join(parts)

    def _number(self, place: int) -> bytes:
        number = self._numbers[self._starts[place] : self._ends[place]]
        if number == DOUBLE:
            return repr(float(self._doubles[self._nth_double[place]])).encode()
        if number == SHA256:
            first = 32 * int(self._nth_hash[place])
            return self._hashes[first : first + 32].hex().encode()
        return number
