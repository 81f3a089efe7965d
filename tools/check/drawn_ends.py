"""Calls at the contract's end: as many rows as are legal.

An index that overflows, or a grid that is one block short, shows in the last rows of the greatest
call. All other extents are least, so that few bytes hold it.
"""

from __future__ import annotations

import random

from astra_chat.tools.check.drawn_dims import GRID_LIMIT, Dims, least, legal_near
from astra_chat.tools.task.domain import MAX_BYTES, Combination
from astra_chat.tools.task.folder import Task

Ends = list[tuple[Combination, Dims]]


def at_ends(task: Task, rng: random.Random) -> tuple[Ends, tuple[str, ...]]:
    """For each dim that exceeds a grid's second extent a call with its greatest extent, of a drawn
    combination of dtypes among those with which it is small enough; and the dims that have none, as
    text."""
    found, left_out = Ends(), list[str]()
    for name, dim in task.dims.items():
        if dim.max <= GRID_LIMIT:
            continue
        calls = [(kind, _at_end(task, kind, name)) for kind in task.combinations]
        small = [(kind, dims) for kind, dims in calls if dims and task.is_small(kind.case(dims))]
        if small:
            found.append(rng.choice(small))
        else:
            size = f"takes more than {MAX_BYTES // 2**20} MiB"
            left_out.append(f"{name}: a call with {dim.max:,}, its greatest extent, {size}")
    return found, tuple(left_out)


def _at_end(task: Task, kind: Combination, name: str) -> Dims | None:
    """Others least, or as large as relations ask; None where that is not legal."""
    greatest = task.dims[name].nearest(task.dims[name].max, kind.dtype)
    dims = legal_near(task, kind, {**least(task, kind), name: greatest}, [name])
    return dims if dims and dims[name] == greatest else None
