"""Layouts of drawn cases: the paddings of strided arguments, and where arguments start."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from astra_chat.tools.task.buffer_layout import buffer_bytes
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import ITEM_BYTES, Case

MOST_PADDED_BYTES, PADDED_ONE_IN = 2**22, 4
"""Most bytes of an argument with the paddings between its rows; and, for a larger one, which part
of its dense bytes they may add: one in so many."""
OFFSETS = 64
ALIGNED_BYTES = 64
"""Paddings are multiples of this where all is aligned."""


def drawn_pads(task: Task, case: Case, rng: random.Random) -> dict[str, int | tuple[int, ...]]:
    """Draws the paddings of strided arguments, in elements, up to several times the row; often the
    same for all."""
    strided = [arg for arg in task.args if arg.strided and arg.present(case)]
    known = sorted({c.pad for c in task.check})
    same, pads = rng.random() < 0.4, dict[str, int | tuple[int, ...]]()
    for arg in strided:
        row = arg.shape_of(case)[-1]
        vector = 16 // ITEM_BYTES[arg.dtype_of(case)]
        drawn = tuple(
            rng.choice(
                (
                    0,
                    rng.choice(known),
                    rng.randrange(1, 128),
                    vector * rng.randrange(1, 128),
                    row * rng.randrange(1, 4) + rng.choice((0, rng.randrange(vector))),
                )
            )
            for _ in arg.free_axes
        )
        drawn = _affordable(arg, case, drawn)
        pads[arg.name] = one_or_all(drawn)
    single = [pad for pad in pads.values() if isinstance(pad, int)]
    if same and len(single) == len(pads) > 0:
        pads = dict.fromkeys(pads, min(single))
    return pads


def one_or_all(pads: tuple[int, ...]) -> int | tuple[int, ...]:
    """Returns the paddings of an argument as a case holds them: a single one as a number."""
    return pads[0] if len(pads) == 1 else pads


def _affordable(arg: Arg, case: Case, pads: tuple[int, ...]) -> tuple[int, ...]:
    """These pads, or as large ones as MOST_PADDED_BYTES and PADDED_ONE_IN allow."""

    def bytes_with(pads: tuple[int, ...]) -> int:
        return buffer_bytes(arg, case.model_copy(update={"pads": {arg.name: pads}}))

    dense = bytes_with((0,) * len(pads))
    most = max(MOST_PADDED_BYTES, dense + dense // PADDED_ONE_IN)
    if arg.strides == ("free", "1"):
        row, rows = arg.shape_of(case)[-1], math.prod(arg.shape_of(case)[:-1])
        room = most // (max(1, rows) * ITEM_BYTES[arg.dtype_of(case)]) - row
        return (max(0, min(pads[0], room)),)
    while any(pads) and bytes_with(pads) > most:
        pads = tuple(pad // 2 for pad in pads)
    return pads


def drawn_offsets(task: Task, rng: random.Random) -> tuple[int, dict[str, int]]:
    """Where arguments start: all aligned, all the same distance past that, or each its own."""
    kind = rng.randrange(5)
    if kind < 3:
        return (0 if kind == 0 else rng.choice((1, 2, 3, rng.randrange(OFFSETS)))), {}
    return 0, {arg.name: rng.randrange(OFFSETS) for arg in task.args}


def all_but_one_aligned(task: Task) -> Iterator[tuple[str, bool]]:
    """Each argument by itself, and whether it is its padding that is odd, not its address."""
    for arg in task.args:
        yield arg.name, False
        if arg.strided:
            yield arg.name, True


def aligned(task: Task, case: Case, rng: random.Random) -> Case:
    """The case with every argument aligned and the paddings round: kernels take their widest
    vectors."""
    pads = dict[str, int | tuple[int, ...]]()
    for arg in task.args:
        if arg.strided and arg.present(case):
            whole = ALIGNED_BYTES // ITEM_BYTES[arg.dtype_of(case)]
            drawn = tuple(whole * rng.randrange(3) for _ in arg.free_axes)
            drawn = tuple(pad // whole * whole for pad in _affordable(arg, case, drawn))
            pads[arg.name] = one_or_all(drawn)
    return case.model_copy(update={"pads": pads, "offset": 0, "offsets": {}})


def aligned_but(task: Task, case: Case, name: str, padded: bool, rng: random.Random) -> Case:
    """Returns the case as `aligned` does, but for the padding or the address of this one argument:
    a kernel that does not look there takes its vectors."""
    case = aligned(task, case, rng)
    if not padded:
        by = rng.choice((0, 0, 1, 2))
        return case.model_copy(update={"offsets": {name: rng.randrange(1, OFFSETS >> by, 2) << by}})
    arg = next(arg for arg in task.args if arg.name == name)
    axis = rng.randrange(len(arg.free_axes))
    odd = rng.randrange(1, ALIGNED_BYTES // ITEM_BYTES[arg.dtype_of(case)], 2)
    drawn = tuple(pad + odd * (at == axis) for at, pad in enumerate(arg.pads_of(case)))
    pad = one_or_all(_affordable(arg, case, drawn))
    return case.model_copy(update={"pads": {**case.pads, name: pad}})
