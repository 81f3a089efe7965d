"""Memory that notes which of its bytes are read, for kernels on the NumPy engine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class CountedBytes(np.ndarray[Any, Any]):
    """A view of an array: every element that is taken by a list of indices counts as read.

    Views of it, of any item size, note in the same place.
    """

    seen: NDArray[np.bool_] | None
    start: int

    def __array_finalize__(self, other: Any) -> None:
        self.seen = getattr(other, "seen", None)
        self.start = getattr(other, "start", 0)

    @staticmethod
    def of(array: NDArray[np.uint8]) -> CountedBytes:
        """Returns a view of the array; nothing of it was read."""
        view = array.view(CountedBytes)
        view.seen, view.start = np.zeros(array.nbytes, np.bool_), int(array.ctypes.data)
        return view

    def take(self, indices: Any, *more: Any, **named: Any) -> Any:
        """Takes elements like any array; they count as read."""
        if self.seen is not None:
            first = int(self.__array_interface__["data"][0]) - self.start
            items = np.unique(np.asarray(indices).reshape(-1)).astype(np.int64)
            starts = first + items * self.itemsize
            for byte in range(self.itemsize):
                self.seen[starts + byte] = True
        return np.asarray(self).take(indices, *more, **named)

    def bytes_read(self) -> NDArray[np.bool_]:
        """Which bytes were read so far. Raises ValueError for what counts nothing."""
        if self.seen is None:
            raise ValueError("no view made by CountedBytes.of")
        return self.seen
