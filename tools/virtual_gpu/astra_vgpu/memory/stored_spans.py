"""Which part of each buffer a block stored to: where only a sample of blocks runs, what nobody
wrote differs from what others would have written."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.memory.buffers import Buffer
from astra_vgpu.types import Launch

Span = tuple[int, int]
"""The first byte of a buffer and the end of the last."""


class StoredSpans:
    """Notes from the NumPy engine, for the launches of one call."""

    def __init__(self) -> None:
        self._launches: list[Launch] = []
        self._spans: defaultdict[tuple[int, int], dict[int, Span]] = defaultdict(dict)
        """Span of each block that stored something, by number of the launch and address of the
        buffer."""

    def of(self, launch: Launch, buffer: Buffer) -> dict[int, Span]:
        """Returns the bytes from the first to the last that each block stored to, for those that
        stored anything; `launch` is the object of a report."""
        return self._spans[self._number(launch), buffer.address]

    def note(
        self,
        launch: Launch,
        buffer: Buffer,
        blocks: NDArray[np.int64],
        starts: NDArray[np.int64],
        size: int,
    ) -> None:
        """Takes note of stores of `size` bytes each; `starts` are offsets into the buffer, and
        those of one block lie in a row."""
        edges = np.flatnonzero(np.diff(blocks, prepend=-1))
        first, last = np.minimum.reduceat(starts, edges), np.maximum.reduceat(starts, edges)
        spans = self._spans[self._number(launch), buffer.address]
        for block, begin, end in zip(
            blocks[edges].tolist(), first.tolist(), (last + size).tolist(), strict=True
        ):
            known = spans.get(block, (begin, end))
            spans[block] = min(known[0], begin), max(known[1], end)

    def _number(self, launch: Launch) -> int:
        """Returns the number of this launch object: two launches may be equal."""
        for number, known in enumerate(self._launches):
            if known is launch:
                return number
        self._launches.append(launch)
        return len(self._launches) - 1
