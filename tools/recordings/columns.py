"""Whole numbers as bytes that compress: how far each lies from the column's middle, its low bytes
in one stream, its next bytes in another."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

MOST_VALUES = 2**22
"""Values of one member, at most: an archive may come from anybody. A run has some 50,000."""
Whole = NDArray[np.int64]
Column = list[int]
"""Its length, its middle, and how many streams it takes."""


@dataclass
class Streams:
    """Bytes of one kind one after another, by name."""

    content: dict[str, bytearray] = field(default_factory=lambda: defaultdict(bytearray))

    def put(self, name: str, values: Whole) -> Column:
        """Append a column; the result is what `Cursor.take` needs to find it again."""
        middle = int(np.median(values)) if len(values) else 0
        away = values - middle
        folded = np.where(away >= 0, 2 * away, -2 * away - 1)
        planes = (int(folded.max()).bit_length() + 7) // 8 if len(values) else 0
        for plane in range(planes):
            low = (folded >> 8 * plane) & 255
            self.content[f"{name}.{plane}"] += low.astype(np.uint8).tobytes()
        return [len(values), middle, planes]

    def ends(self) -> dict[str, int]:
        """Where the next byte of each goes."""
        return {name: len(content) for name, content in self.content.items()}


@dataclass
class Cursor:
    """Places in streams, from which one member's bytes are taken in the order of writing."""

    content: dict[str, bytes]
    places: dict[str, int]
    left: int = MOST_VALUES

    def bytes(self, name: str, count: int) -> bytes:
        """Raises ValueError where the stream has fewer."""
        start = self.places.get(name, 0)
        found = self.content.get(name, b"")[start : start + count]
        if start < 0 or len(found) < count:
            raise ValueError(f"stream {name} is too short")
        self.places[name] = start + count
        return found

    def take(self, name: str, column: Column) -> Whole:
        """What `Streams.put` was given. Raises ValueError."""
        count, middle, planes = column
        if not 0 <= planes <= 7:
            raise ValueError(f"{planes} streams of a column")
        if not 0 <= count <= self.left:
            raise ValueError(f"{count} values in a column")
        self.left -= count
        folded = np.zeros(count, np.int64)
        for plane in range(planes):
            part = np.frombuffer(self.bytes(f"{name}.{plane}", count), np.uint8)
            folded |= part.astype(np.int64) << 8 * plane
        away = np.where(folded % 2, -(folded + 1) // 2, folded // 2)
        return away + middle
