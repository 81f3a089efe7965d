"""Legal values of index arguments: places in other arguments, drawn by the kind of the index."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import torch

from astra_chat.tools.case import ONE_PLACE, SEED_BITS, USUAL_SEED_BITS
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.types import Case

FEW, CROWDED_IN = 3, 4
"""A crowded index holds few distinct values, so that many entries hit the same place; one in so
many is crowded. Never in timed cases: a router does not choose like that."""
NONE_SHARES = (0.0, 0.5, 0.9, 1.0)
"""Shares of entries that mean "no entry" in drawn cases, beside the contract's share: a call may
have no entry at all, or all of them."""
ONE_PLACE_IN, IN_RUNS_IN = 4, 2
"""Drawn cases in which all entries of an index are the same, as positions of a batch in step; and
those whose slots lie in runs, as a page or a prefill has them."""
RUNS = (4, 8, 16, 64, 1024)
"""Slots of a run."""
SHORT = 16
"""Short lengths are up to this part of the greatest."""
SHUFFLED = 2**22
"""A range up to this is shuffled whole; of a longer one numbers are drawn until all differ."""

Shape = tuple[int, ...]
Draw = Callable[[torch.Generator, Shape, int, int], torch.Tensor]
"""Draws int64 numbers of a shape, from `low` to below `high`."""


def draw_indices(arg: Arg, case: Case, generator: torch.Generator) -> torch.Tensor:
    """Legal values of an index argument, in its dtype and shape."""
    assert arg.index is not None
    low, high = arg.index.bounds(arg.names_in(case))
    shape, share, draw = arg.shape_of(case), arg.index.none_share, _KINDS[arg.index.kind]
    rare = case.seed % 2**SEED_BITS > 2**USUAL_SEED_BITS
    may_meet = draw is _any and arg.index.kind != "lengths"
    if draw is _distinct and (rare or case.values != "normal"):
        few = int(torch.randint(CROWDED_IN, (1,), generator=generator)) == 0
        draw = _one_set if few else draw
    if may_meet and (rare or case.values != "normal"):
        draw = _crowded if int(torch.randint(CROWDED_IN, (1,), generator=generator)) == 0 else draw
    if rare:
        rng = random.Random(f"{case.seed} {arg.name}")
        share = rng.choice((share, share, *NONE_SHARES))
        if (may_meet or draw is _positions) and rng.randrange(ONE_PLACE_IN) == 0:
            draw = _one_place
        elif arg.index.kind == "lengths":
            draw = rng.choice(_LENGTHS)
        elif draw is _slots and rng.randrange(IN_RUNS_IN) == 0:
            draw = _slots_in_runs
    if may_meet and case.seed & ONE_PLACE:
        share, draw = arg.index.none_share, _one_place
    if arg.index.none is not None and high <= low:
        drawn = torch.full(shape, arg.index.none)
    else:
        drawn = draw(generator, shape, low, high)
    if arg.index.kind == "sorted":
        drawn = drawn.sort(dim=-1).values
    found: torch.Tensor = _with_none(generator, drawn, share, arg.index.none).to(
        getattr(torch, arg.dtype_of(case))
    )
    return found


def _with_none(
    g: torch.Generator, drawn: torch.Tensor, share: float, none: int | None
) -> torch.Tensor:
    """A share of the entries means "no entry", where a number does."""
    if none is None or not drawn.numel():
        return drawn
    return torch.where(torch.rand(drawn.shape, generator=g) < share, none, drawn)


def _one_place(g: torch.Generator, shape: Shape, low: int, high: int) -> torch.Tensor:
    return torch.full(shape, int(torch.randint(low, high, (1,), generator=g)))


def _any(g: torch.Generator, shape: Shape, low: int, high: int) -> torch.Tensor:
    """Anywhere, with both ends."""
    return _with_ends(
        torch.randint(low, high, (math.prod(shape),), generator=g), g, low, high, shape
    )


def _crowded(g: torch.Generator, shape: Shape, low: int, high: int) -> torch.Tensor:
    some = torch.randint(low, high, (FEW,), generator=g)
    drawn = some[torch.randint(FEW, (math.prod(shape),), generator=g)]
    return _with_ends(drawn, g, low, high, shape)


def _with_ends(
    drawn: torch.Tensor, g: torch.Generator, low: int, high: int, shape: Shape
) -> torch.Tensor:
    for value in (low, high - 1):
        if len(drawn) > 1:
            drawn[int(torch.randint(len(drawn), (1,), generator=g))] = value
    return drawn.reshape(shape)


def _permutation(g: torch.Generator, shape: Shape, low: int, high: int) -> torch.Tensor:
    rows = [torch.randperm(shape[-1], generator=g) for _ in range(math.prod(shape[:-1]))]
    return low + torch.stack(rows).reshape(shape) if rows else torch.zeros(shape).long()


def _distinct(g: torch.Generator, shape: Shape, low: int, high: int) -> torch.Tensor:
    rows = [torch.randperm(high - low, generator=g) for _ in range(math.prod(shape[:-1]))]
    drawn = torch.stack(rows)[:, : shape[-1]] if rows else torch.zeros(0).long()
    return low + drawn.reshape(shape)


def _one_set(g: torch.Generator, shape: Shape, low: int, high: int) -> torch.Tensor:
    """Rows of the same numbers, each in an order of its own."""
    some = torch.randperm(high - low, generator=g)[: shape[-1]]
    return low + some[_permutation(g, shape, 0, shape[-1])]


def _positions(g: torch.Generator, shape: Shape, low: int, high: int) -> torch.Tensor:
    """Runs that count up, as the tokens of several requests do: each row from new starts."""
    rows = []
    for _ in range(math.prod(shape[:-1])):
        runs: list[torch.Tensor] = []
        left = shape[-1]
        while left:
            longest = min(left, high - low)
            length = int(torch.randint(1, longest + 1, (1,), generator=g))
            start = int(torch.randint(low, high - length + 1, (1,), generator=g))
            runs.append(torch.arange(start, start + length))
            left -= length
        rows.append(torch.cat(runs) if runs else torch.zeros(0).long())
    return torch.stack(rows).reshape(shape) if rows else torch.zeros(shape).long()


def _slots(g: torch.Generator, shape: Shape, low: int, high: int) -> torch.Tensor:
    count = math.prod(shape)
    if high - low <= SHUFFLED:
        return low + torch.randperm(high - low, generator=g)[:count].reshape(shape)
    found = torch.zeros(0).long()
    while len(found) < count:
        more = torch.randint(low, high, (2 * count,), generator=g)
        found = torch.cat([found, more]).sort().values
        found = found[torch.cat([torch.ones(1).bool(), found[1:] != found[:-1]])]
    return found[torch.randperm(len(found), generator=g)[:count]].reshape(shape)


def _slots_in_runs(g: torch.Generator, shape: Shape, low: int, high: int) -> torch.Tensor:
    """Runs that count up, one behind the other or in mixed order; slots anywhere where there is no
    room for runs."""
    count, room = math.prod(shape), high - low
    fitting = [run for run in RUNS if run <= count and -(-count // run) <= room // run]
    if not fitting:
        return _slots(g, shape, low, high)
    run = fitting[int(torch.randint(len(fitting), (1,), generator=g))]
    runs = -(-count // run)
    starts = _slots(g, (runs,), 0, room // run)
    if int(torch.randint(2, (1,), generator=g)):
        starts = torch.arange(runs) + int(torch.randint(room // run - runs + 1, (1,), generator=g))
    spare = int(torch.randint(room % run + 1, (1,), generator=g))
    found = (starts[:, None] * run + torch.arange(run)).reshape(-1)[:count]
    return low + spare + found.reshape(shape)


def _least(g: torch.Generator, shape: Shape, low: int, high: int) -> torch.Tensor:
    return torch.full(shape, low)


def _greatest(g: torch.Generator, shape: Shape, low: int, high: int) -> torch.Tensor:
    return torch.full(shape, high - 1)


def _often_ends(g: torch.Generator, shape: Shape, low: int, high: int) -> torch.Tensor:
    """A third each of the least, the greatest and any: rows that are empty, or full."""
    which = torch.randint(3, shape, generator=g)
    any_ = torch.randint(low, high, shape, generator=g)
    return torch.where(which == 0, low, torch.where(which == 1, high - 1, any_))


def _one_long(g: torch.Generator, shape: Shape, low: int, high: int) -> torch.Tensor:
    """The greatest in one place, and short ones, some of them the least, elsewhere."""
    most = low + max(1, (high - low) // SHORT)
    flat = torch.randint(low, most, (math.prod(shape),), generator=g)
    if len(flat):
        flat[int(torch.randint(len(flat), (1,), generator=g))] = high - 1
    return flat.reshape(shape)


_LENGTHS: tuple[Draw, ...] = (_any, _one_place, _least, _greatest, _often_ends, _one_long)
"""Ways to draw lengths in drawn cases."""
_KINDS: dict[str, Draw] = {
    "any": _any,
    "sorted": _any,
    "permutation": _permutation,
    "distinct": _distinct,
    "positions": _positions,
    "slots": _slots,
    "lengths": _any,
}
