"""On which rows a winner is faster: a call is as the timed case that is nearest to it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


class Rows:
    """Timed cases of a winner on one GPU. A call is as the case that is nearest to it."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], dims: Sequence[Sequence[Any]]) -> None:
        self._rows, self._dims = rows, dims
        self._known: dict[tuple[Any, ...], str] = {}

    def slower(self, arguments: Sequence[Any], dtype: str) -> str:
        """Why the winner does not gain on this call; empty: it does."""
        dims = self._of(arguments)
        key = (dtype, *dims.values())
        if key not in self._known:
            self._known[key] = self._slower(dims, dtype)
        return self._known[key]

    def _of(self, arguments: Sequence[Any]) -> dict[str, int]:
        """Extent of each dim, from the tensors' shapes or the argument that is the dim."""
        found: dict[str, int] = {}
        for name, place, axis, divisors in self._dims:
            value = arguments[place] if axis is None else arguments[place].shape[axis]
            for one in divisors:
                value //= found[one] if isinstance(one, str) else one
            found[name] = max(1, int(value))
        return found

    def _slower(self, dims: Mapping[str, int], dtype: str) -> str:
        timed = [row for row in self._rows if row["dtype"] in (dtype, "")]
        if not timed:
            return f"no case of {dtype} was timed"

        def apart(row: Mapping[str, Any]) -> tuple[float, float]:
            gaps = (abs(math.log(row["dims"][name] / value)) for name, value in dims.items())
            return sum(gaps), row["low"]

        nearest = min(timed, key=apart)
        if nearest["low"] > 1:
            return ""
        return f"not faster on the nearest timed case, {nearest['label']}"
