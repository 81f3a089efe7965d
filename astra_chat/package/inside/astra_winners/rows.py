"""On which rows a winner is faster: a call is as the timed case, and the step, nearest to it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


class Rows:
    """Timed cases of a winner on one GPU, and the steps of an engine that were measured with it. A
    call is as those that are nearest to it."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        dims: Sequence[Sequence[Any]],
        steps: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._rows, self._dims, self._steps = rows, dims, steps
        self._known: dict[tuple[Any, ...], str] = {}

    def slower(self, arguments: Sequence[Any], dtype: str) -> str:
        """Why the winner does not gain on this call; empty: it does."""
        dims = dims_of(arguments, self._dims)
        key = (dtype, *dims.values())
        if key not in self._known:
            self._known[key] = self._slower(dims, dtype)
        return self._known[key]

    def _slower(self, dims: Mapping[str, int], dtype: str) -> str:
        steps = [row for row in self._steps if row["dtype"] in (dtype, "")]
        if steps and (nearest := min(steps, key=lambda row: _apart(row, dims)))["low"] < 1:
            return f"it is slower in the nearest measured step, {nearest['label']}"
        if not self._rows:
            return ""
        timed = [row for row in self._rows if row["dtype"] in (dtype, "")]
        if not timed:
            return f"no case of {dtype} was timed"
        nearest = min(timed, key=lambda row: _apart(row, dims))
        if nearest["low"] > 1:
            return ""
        return f"not faster on the nearest timed case, {nearest['label']}"


def dims_of(arguments: Sequence[Any], dims: Sequence[Sequence[Any]]) -> dict[str, int]:
    """Extent of each dim, from the tensors' shapes or the argument that is the dim."""
    found: dict[str, int] = {}
    for name, place, axis, divisors in dims:
        value = arguments[place] if axis is None else arguments[place].shape[axis]
        for one in divisors:
            value //= found[one] if isinstance(one, str) else one
        found[name] = max(1, int(value))
    return found


def _apart(row: Mapping[str, Any], dims: Mapping[str, int]) -> tuple[float, float]:
    """How far a row is from a call; of rows equally far, the slower one comes first."""
    gaps = (abs(math.log(row["dims"][name] / value)) for name, value in dims.items())
    return sum(gaps), row["low"]
