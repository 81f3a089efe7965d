"""Levels of the dims in a covering array: extents of served calls and powers of two by themselves,
as far as the number of cases allows, and what is left in groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from astra_chat.tools.check.drawn_dims import least
from astra_chat.tools.check.drawn_together import most_varied
from astra_chat.tools.task.folder import Task

Level = tuple[int, ...]
"""Extents that are one to a covering array; each case draws one of them."""
CASES = {2: (64, 36), 3: (144, 80)}
"""Cases that the levels of the largest factors may make necessary, by strength: about so many for a
task of few dims, and for one of more."""
FEW_DIMS = 4
TOKENS = {2: 5, 3: 4}
"""Levels of the dim that varies most in timed calls, by strength: kernels are written for ranges of
it, not for single extents."""
OTHER_BYTES = 2**18
"""Most bytes of a call with an extent that no timed call has and the least of all others. Larger
ones are drawn elsewhere (check/drawn_dims.py)."""


class _Levels:
    """Levels of one dim, which can be merged until few are left."""

    def __init__(self, lowest: int, served: Sequence[int], others: Sequence[int]) -> None:
        self.lowest, self.served, self.others = (lowest,), [(e,) for e in served], others
        self.groups = len(others)
        self.apart = True
        """The least extent is a level of its own."""

    def merge(self) -> bool:
        """One level less; whether that was possible. Served extents are never merged."""
        if self.groups > 1:
            self.groups -= 1
        elif self.apart and self.groups and self.served:
            self.apart = False
        else:
            return False
        return True

    @property
    def size(self) -> int:
        return self.apart + len(self.served) + self.groups

    def done(self) -> tuple[Level, ...]:
        others = list(self.others) if self.apart else [*self.lowest, *self.others]
        first = (self.lowest,) if self.apart else ()
        return (*first, *self.served, *_groups(others, self.groups))


def dim_levels(
    task: Task, strength: int, most_bytes: int, beside: Sequence[int]
) -> dict[str, tuple[Level, ...]]:
    """The levels of each dim: its least extent, those of timed calls that a call of `most_bytes` at
    most can have, and powers of two and extents of the task's own cases: each by itself, or of the
    dims that have most levels in groups of neighbors, as CASES says. `beside`: how many levels the
    other factors have."""
    tokens = most_varied(task)
    fixed = {tokens: _of_tokens(task, tokens, TOKENS[strength], most_bytes)}
    free = {name: _of(task, name, most_bytes) for name in task.dims if name != tokens}
    most = CASES[strength][len(task.dims) > FEW_DIMS]
    able = list(free)
    while able:
        sizes = [*beside, len(fixed[tokens]), *(levels.size for levels in free.values())]
        if math.prod(sorted(sizes)[-strength:]) <= most:
            break
        name = max(able, key=lambda name: free[name].size)
        if not free[name].merge():
            able.remove(name)
    return {name: fixed.get(name) or free[name].done() for name in task.dims}


def _of(task: Task, name: str, most_bytes: int) -> _Levels:
    timed = {case.dims[name] for case, _ in (*task.bench, *task.demo)}
    lowest = _lowest(task, name)
    served = [e for e in sorted(timed - {lowest}) if _bytes(task, name, e) <= most_bytes]
    dim = task.dims[name]
    usual = {2**k for k in range(dim.max.bit_length())} | set(dim.values)
    usual |= {case.dims[name] for case in task.check}
    others = _legal(task, name, usual - timed - {lowest})
    return _Levels(lowest, served, [e for e in others if _bytes(task, name, e) <= OTHER_BYTES])


def _of_tokens(task: Task, name: str, count: int, most_bytes: int) -> tuple[Level, ...]:
    """The least extent, and groups of as many octaves of powers of two, of timed extents and of
    those beside them."""
    lowest, timed = _lowest(task, name), {case.dims[name] for case, _ in (*task.bench, *task.demo)}
    usual = timed | {2**k for k in range(max(timed).bit_length())} | set(task.dims[name].values)
    near = _legal(task, name, {extent + by for extent in usual for by in (-1, 0, 1)})
    legal = [e for e in near if e > lowest and _bytes(task, name, e) <= most_bytes]
    octaves = sorted({extent.bit_length() for extent in legal})
    groups = _groups(octaves, count - 1)
    return ((lowest,), *(tuple(e for e in legal if e.bit_length() in group) for group in groups))


def _lowest(task: Task, name: str) -> int:
    return min(least(task, kind)[name] for kind in task.combinations)


def _legal(task: Task, name: str, extents: set[int]) -> list[int]:
    """Returns the extents that some dtype allows, ascending."""
    dim = task.dims[name]
    return sorted(e for e in extents if any(dim.allows(e, dtype) for dtype in task.dtypes))


def _bytes(task: Task, name: str, extent: int) -> float:
    """Returns the bytes of the smallest call with this extent and the least of all others; infinite
    where no size can be computed."""
    try:
        kinds = task.combinations
        return min(task.size_bytes(k.case({**least(task, k), name: extent})) for k in kinds)
    except ZeroDivisionError:
        return math.inf


def _groups(extents: Sequence[int], count: int) -> list[Level]:
    """Returns the extents in `count` groups of neighbors, as equal as can be; fewer where there are
    fewer extents."""
    count = min(count, len(extents))
    cuts = [len(extents) * place // max(1, count) for place in range(count + 1)]
    return [tuple(extents[a:b]) for a, b in pairwise(cuts)]
