"""Gaps in what was written, and which of them are padding."""

from __future__ import annotations

import numpy as np
import pytest

from astra_vgpu.memory.buffers import unwritten


def _without(nbytes: int, *gaps: tuple[int, int]) -> np.ndarray:
    """All of these bytes were written but those of the gaps, each with its first byte and size."""
    written = np.ones(nbytes, np.bool_)
    for first, size in gaps:
        written[first : first + size] = False
    return written


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ((), (0, 0)),
        (((4096, 4096),), (4096, 4096)),
        (((8188, 4),), (4, 8188)),
        (((100, 4), (4000, 4)), (8, 100)),
        (((996, 28),), (28, 996)),
        (((0, 100), (512, 24)), (124, 0)),
        (((36, 400), (548, 400)), (800, 36)),
    ],
)
def test_gaps_count(gaps: tuple[tuple[int, int], ...], expected: tuple[int, int]) -> None:
    assert unwritten(_without(8192, *gaps), 0) == expected


def test_padding_of_structures_does_not_count() -> None:
    assert unwritten(_without(24, (1, 7), (20, 4)), 0) == (0, 0)
    several = [gap for at in range(0, 2400, 24) for gap in ((at + 1, 7), (at + 20, 4))]
    assert unwritten(_without(2400, *several), 0) == (0, 0)
    assert unwritten(_without(2416, *several, (2400, 16)), 0) == (20, 2396)


def test_the_ends_of_pitched_rows_do_not_count() -> None:
    rows = [(at + 100, 412) for at in range(0, 4096, 512)]
    assert unwritten(_without(4096, *rows), 0) == (0, 0)
    assert unwritten(_without(4096, *rows), 1024) == (0, 0)
    assert unwritten(_without(4096, *rows), 8) == (8 * 412, 100)
