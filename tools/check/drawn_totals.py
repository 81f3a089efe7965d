"""Extents whose product is a given number: what is compared with may count all elements of an
argument."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

from astra_chat.tools.check.drawn_dims import Dims, least, legal_near, within_bytes
from astra_chat.tools.check.drawn_together import most_varied
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.folder import Task

LEAST_TOTAL, MOST_TOTAL = 10_000, 2**24
"""Numbers of elements that are tried: fewer are in all drawn cases, and more take too long."""
MOST_BYTES = 2**26
MOST_CASES = 6
ROWS = (128, 2048)
"""About how many elements a token has."""


def at_totals(
    task: Task, sizes: Sequence[int], rng: random.Random
) -> Iterator[tuple[Combination, Dims]]:
    """Dims with which an argument has so many elements, or the next possible number; for each of
    these sizes in their order, arguments with other shapes by turns, at most MOST_CASES."""
    args = list({arg.shape: arg for arg in task.args}.values())
    some = [size for size in sizes if LEAST_TOTAL <= size <= MOST_TOTAL]
    found = 0
    for place, size in enumerate(some):
        kind = task.combinations[place % len(task.combinations)]
        for arg in args:
            dims = _with_elements(task, kind, arg, size, rng)
            if dims is not None and found < MOST_CASES:
                found += 1
                yield kind, dims


def _with_elements(
    task: Task, kind: Combination, arg: Arg, size: int, rng: random.Random
) -> Dims | None:
    """Rows that divide the number where there are such; None where the argument has no place for
    so many, or they take too many bytes."""
    tokens, fits = most_varied(task), within_bytes(task, kind, MOST_BYTES)
    low = least(task, kind)
    others = [name for name in task.dims if name != tokens and _counts(task, kind, arg, name)]
    wide = max(others, key=lambda name: task.dims[name].max / max(1, low[name]), default=None)
    if not _counts(task, kind, arg, tokens):
        return None
    extents = _extents(task, kind, wide, rng) if wide else [0]
    tried = [{**low, **({wide: extent} if wide else {})} for extent in extents]
    rows = [_elements(arg, kind, {**dims, tokens: 1}) for dims in tried]
    for exactly in (True, False):
        for dims, row in zip(tried, rows, strict=True):
            wanted = {**dims, tokens: -(-size // row) if row else 0}
            if (row > 0 and size % row == 0) is not exactly or wanted[tokens] < 1:
                continue
            if not task.dims[tokens].allows(wanted[tokens], kind.dtype):
                continue
            if legal_near(task, kind, wanted, list(wanted)) == wanted and fits(wanted):
                return wanted
    return None


def _counts(task: Task, kind: Combination, arg: Arg, name: str) -> bool:
    """Whether an argument has more elements where this dim is larger."""
    low = least(task, kind)
    more = {**low, name: 2 * max(1, low[name])}
    return _elements(arg, kind, more) > _elements(arg, kind, low)


def _extents(task: Task, kind: Combination, name: str, rng: random.Random) -> Sequence[int]:
    """Legal extents of a dim in the order in which they are tried."""
    dim = task.dims[name]
    step = dim.step(kind.dtype)
    low = max(dim.nearest(dim.min, kind.dtype), dim.nearest(ROWS[0], kind.dtype))
    legal = [e for e in range(low, min(dim.max, ROWS[1]) + 1, step) if dim.allows(e, kind.dtype)]
    return rng.sample(legal, len(legal))


def _elements(arg: Arg, kind: Combination, dims: Dims) -> int:
    return math.prod(arg.shape_of(kind.case(dims)))
