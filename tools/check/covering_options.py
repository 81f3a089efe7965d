"""Options of a case: what a covering array chooses beside dtypes and extents.

Each is a factor with a few levels; it can put a case on one, and say which one a case is on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from astra_chat.tools.check.drawn_layouts import (
    ALIGNED_BYTES,
    OFFSETS,
    aligned,
    aligned_but,
    all_but_one_aligned,
)
from astra_chat.tools.task.contract import Scalar
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.relations import broken
from astra_chat.tools.types import ITEM_BYTES, Case

FLAGS: tuple[str, ...] = ()
"""Fields of a case that are true or false and that a covering array chooses."""
ALIGNED, ALL_BUT_ONE, UNALIGNED = range(3)
TRIES = 8


@dataclass(frozen=True)
class Option:
    """One factor."""

    name: str
    levels: int
    put: Callable[[Case, int, random.Random], Case]
    """The case on a level; what else it draws."""
    of: Callable[[Case], int]
    """The level that a case is on."""
    absent: str = ""
    """The argument that is left out on level 1."""


def options_of(task: Task) -> tuple[Option, ...]:
    """Scalars, optional arguments, alignment and flags, in this order."""
    return (
        *(_scalar(task, scalar) for scalar in task.scalars if scalar.varies),
        *(_absence(arg.name) for arg in task.args if arg.optional),
        Option("alignment", 3, partial(_laid_out, task), partial(alignment_of, task)),
        *map(_flag, FLAGS),
    )


def _scalar(task: Task, scalar: Scalar) -> Option:
    """A level for each value that the contract names, and one for those of a range beside them."""
    named, name = scalar.named, scalar.name

    def put(case: Case, level: int, rng: random.Random) -> Case:
        value = named[level] if level < len(named) else _beside(scalar, rng)
        changed = case.model_copy(update={"scalars": {**case.scalars, name: value}})
        return case if broken(task.require, task.names_in(changed)) else changed

    def of(case: Case) -> int:
        value = scalar.value_in(case)
        return named.index(value) if value in named else len(named)

    return Option(name, len(named) + (scalar.range is not None), put, of)


def _beside(scalar: Scalar, rng: random.Random) -> float:
    """A value of the range that has no name; seldom a named one, where there are few others."""
    assert scalar.range is not None
    value = scalar.value
    for _ in range(TRIES):
        low, high = scalar.range
        value = (
            math.exp(rng.uniform(*map(math.log, (low, high))))
            if low > 0
            else rng.uniform(low, high)
        )
        value = min(high, max(low, float(round(value)) if scalar.type == "int64_t" else value))
        if value not in scalar.named:
            break
    return value


def _absence(name: str) -> Option:
    """Left out on level 1. The case is drawn so; its layout and values then fit."""
    return Option(
        f"without {name}",
        2,
        lambda case, level, rng: case,
        lambda case: int(name in case.absent),
        absent=name,
    )


def _flag(name: str) -> Option:
    return Option(
        name,
        2,
        lambda case, level, rng: case.model_copy(update={name: bool(level)}),
        lambda case: int(bool(getattr(case, name))),
    )


def _laid_out(task: Task, case: Case, level: int, rng: random.Random) -> Case:
    """All arguments aligned, all but one, or none."""
    if level == ALIGNED:
        return aligned(task, case, rng)
    if level == ALL_BUT_ONE:
        present = {arg.name for arg in task.args if arg.present(case)}
        places = [place for place in all_but_one_aligned(task) if place[0] in present]
        name, padded = rng.choice(places)
        found = aligned_but(task, case, name, padded, rng)
        # A large argument's padding may have been cut to nothing.
        return (
            found if not padded or _odd(task, found) else aligned_but(task, case, name, False, rng)
        )
    odd = {arg.name: rng.randrange(1, OFFSETS, 2) for arg in task.args}
    if rng.randrange(2) == 0:
        return case.model_copy(update={"offset": min(odd.values()), "offsets": {}})
    return case.model_copy(update={"offset": 0, "offsets": odd})


def alignment_of(task: Task, case: Case) -> int:
    """ALIGNED, ALL_BUT_ONE or UNALIGNED."""
    odd = _odd(task, case)
    return min(len(odd), UNALIGNED) if len(task.args) > 1 else UNALIGNED * bool(odd)


def _odd(task: Task, case: Case) -> set[str]:
    """Arguments with an address or a padding that is not aligned."""
    return {name for name, is_odd in _places(task, case) if is_odd}


def _places(task: Task, case: Case) -> Iterator[tuple[str, bool]]:
    for arg in task.args:
        if not arg.present(case):
            continue
        whole = ALIGNED_BYTES // ITEM_BYTES[arg.dtype_of(case)]
        yield arg.name, bool(case.offsets.get(arg.name, case.offset))
        if arg.strided:
            yield arg.name, any(pad % whole for pad in arg.pads_of(case))
