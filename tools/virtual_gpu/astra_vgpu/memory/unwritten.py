"""Which bytes nothing wrote of what is copied to the host, padding left aside."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MEMBER_BYTES = 8
"""Shorter gaps may lie between the members of a structure."""
STRUCTURE_BYTES = 128
"""Largest size of structures whose gaps are expected: two such gaps lie no farther apart."""
PITCH_BYTES = 512
"""What cudaMallocPitch rounds rows up to."""


def unwritten(written: NDArray[np.bool_], start: int) -> tuple[int, int]:
    """How many bytes nothing wrote, and where the first of them is.

    written: by byte of the copy, which begins `start` bytes into its buffer. Left aside are gaps
    that the padding of structures leaves, and equal ones at the ends of rows of pitched memory.
    """
    if written.all():
        return 0, 0
    edges = np.flatnonzero(np.diff(written, prepend=True, append=True))
    begins, ends = edges[::2], edges[1::2]
    told = ~(_between_members(begins, ends, written.size) | _behind_rows(begins, ends, start))
    if not told.any():
        return 0, 0
    return int((ends - begins)[told].sum()), int(begins[told][0])


def _between_members(
    begins: NDArray[np.intp], ends: NDArray[np.intp], copied: int
) -> NDArray[np.bool_]:
    small = ends - begins < MEMBER_BYTES
    if copied <= STRUCTURE_BYTES:
        return small
    near = (np.diff(begins) <= STRUCTURE_BYTES) & small[1:] & small[:-1]
    return np.asarray(np.append(near, False) | np.append(False, near))


def _behind_rows(begins: NDArray[np.intp], ends: NDArray[np.intp], start: int) -> NDArray[np.bool_]:
    at_row_ends = (ends + start) % PITCH_BYTES == 0
    large = ends - begins >= MEMBER_BYTES
    equal = np.unique((ends - begins)[large]).size == 1 and np.count_nonzero(large) > 1
    return np.asarray(large & at_row_ends & equal)
