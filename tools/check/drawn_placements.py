"""How arguments of drawn cases lie to each other: half of the cases of a contract that names packed
arguments have them in one buffer; of every task some have all arguments in neighbouring
allocations, as a caching allocator gives them.

A kernel can compare pointers as well as numbers, and takes the path that it finds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from astra_chat.tools.case import Packed
from astra_chat.tools.check.covering_options import alignment_of
from astra_chat.tools.check.drawn_layouts import one_or_all
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.placement import packed_pads, then_of
from astra_chat.tools.types import Case

APART_ONE_IN = 6
"""Cases with the strides of a packed buffer whose arguments lie apart all the same."""
TRIES = 4
"""Draws of a placement that keeps a case's alignment."""
MOST_THEN = 64
"""Elements that are drawn for what follows the last argument of a row."""


def lying(
    task: Task, cases: Sequence[Case], rng: random.Random, *, keep_alignment: bool = False
) -> Iterator[Case]:
    """The cases in their order, each with a drawn placement; of those of a covering array only one
    with which as many arguments are aligned as before."""
    for case in cases:
        kinds = _kinds(task, case, rng)
        tries = (kind for kind in kinds for _ in range(TRIES if keep_alignment else 1))
        drawn = (placed(task, case, kind, rng) for kind in tries)
        level = alignment_of(task, case) if keep_alignment else None
        kept = (one for one in drawn if one and level in (None, alignment_of(task, one)))
        yield next(kept, case)


def _kinds(task: Task, case: Case, rng: random.Random) -> tuple[Packed, ...]:
    """What to try, the first that is possible."""
    drawn = rng.randrange(8)
    if task.packed and drawn < 4:
        return ("rows", "tensors") if drawn < 2 else ("tensors", "rows")
    if task.same and drawn < 6:
        return ("same",)
    return ("neighbours",) if drawn < 6 and len(task.args) > 1 else ()


def placed(task: Task, case: Case, kind: Packed, rng: random.Random) -> Case | None:
    """The case with its arguments placed so, and with strides that go with that; None where they
    cannot lie so in it, or would take too much memory."""
    named = [n for groups in (task.packed, task.same) for group in groups for n in group.args]
    pads = case.pads
    if kind in ("tensors", "rows", "same") and (kind == "same" or rng.randrange(3)):
        bare = (arg for arg in task.args if arg.strided and arg.name in named)
        pads = {**pads, **{arg.name: one_or_all((0,) * len(arg.free_axes)) for arg in bare}}
    one = case.model_copy(update={"pads": pads, "packed": kind})
    if kind == "neighbours" and rng.randrange(2):
        one = one.model_copy(update={"offset": 0, "offsets": {}})
    if kind == "rows":
        usual = [then_of(task, group, case) for group in task.packed]
        then = [rng.choice((own, own, own, 0, rng.randrange(MOST_THEN))) for own in usual]
        one = packed_pads(task, one, then)
        if task.allows(one) and task.is_small(one) and not rng.randrange(APART_ONE_IN):
            one = one.model_copy(update={"packed": "apart"})
    return one if task.allows(one) and task.is_small(one) else None
