"""Calls at the contract's end: as many rows as are legal.

An index that overflows, or a grid that is one block short, shows in the last rows of the greatest
call. All other extents are least, so that few bytes hold it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from astra_chat.tools.check.drawn_dims import GRID_LIMIT, Dims, least, legal_near
from astra_chat.tools.task.domain import MAX_BYTES, Combination
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case

Ends = list[tuple[Combination, Dims]]


def at_ends(task: Task, rng: random.Random) -> tuple[Ends, tuple[str, ...]]:
    """For each dim that exceeds a grid's second extent a call with its greatest extent, of a drawn
    combination of dtypes among those with which it is small enough; and the dims that have none, as
    text."""
    found, left_out = Ends(), list[str]()
    for name, calls in _calls(task):
        small = [(kind, dims) for kind, dims in calls if task.is_small(kind.case(dims))]
        if small:
            found.append(rng.choice(small))
        else:
            size = f"takes more than {MAX_BYTES // 2**20} MiB"
            greatest = task.dims[name].max
            left_out.append(f"{name}: a call with {greatest:,}, its greatest extent, {size}")
    return found, tuple(left_out)


def too_large_ends(task: Task) -> list[Case]:
    """For each of these dims without a call that is small enough, the smallest."""
    ends = [[kind.case(dims) for kind, dims in calls] for _, calls in _calls(task)]
    return [min(of, key=task.buffer_bytes) for of in ends if of and not any(map(task.is_small, of))]


def _calls(task: Task) -> Iterator[tuple[str, Ends]]:
    """For each dim that exceeds a grid's second extent the calls with its greatest, by dtypes."""
    for name, dim in task.dims.items():
        if dim.max > GRID_LIMIT:
            calls = ((kind, _at_end(task, kind, name)) for kind in task.combinations)
            yield name, [(kind, dims) for kind, dims in calls if dims]


def _at_end(task: Task, kind: Combination, name: str) -> Dims | None:
    """Others least, or as large as relations ask; None where that is not legal."""
    greatest = task.dims[name].nearest(task.dims[name].max, kind.dtype)
    dims = legal_near(task, kind, {**least(task, kind), name: greatest}, [name])
    return dims if dims and dims[name] == greatest else None
