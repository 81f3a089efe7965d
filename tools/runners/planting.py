"""Plants numbers among the drawn ones of an argument: in whole rows, as the first, the last and a
single element of a row, and as the only number beside zeros."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch

from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case

Way = Literal["row", "first", "last", "one", "alone"]
WAYS: tuple[Way, ...] = ("one", "row", "first", "last", "alone")
BESIDE: tuple[Way, ...] = ("one", "row")
"""Ways in which the numbers next below and next above are planted."""
FEW = 8
"""Distinct numbers from which on an argument of which the contract says nothing holds numbers like
any: fewer are codes, as zeros and ones of a mask."""
MOST_LOOKED_AT = 4096
"""Elements that are looked at for that."""
INTEGER_OF = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
Plant = tuple[float, Way]


def planted(
    task: Task, case: Case, inputs: Mapping[str, torch.Tensor | None]
) -> dict[str, torch.Tensor]:
    """The arguments in which the case plants numbers, with these in them. Where things are planted
    follows from the case's seed; arguments with equal rows hold a number in the same rows."""
    found = {}
    for arg in task.args:
        numbers, drawn = case.planted.get(arg.name, ()), inputs.get(arg.name)
        if not numbers or drawn is None or not drawn.numel() or not arg.present(case):
            continue
        rng = random.Random(f"{case.seed} planted")
        if arg.index is not None:
            found[arg.name] = _in_index(arg, case, drawn, [int(n) for n in numbers], rng)
        elif drawn.is_floating_point():
            found[arg.name] = _in_floats(arg, drawn, numbers, rng)
    return found


def _in_floats(
    arg: Arg, drawn: torch.Tensor, numbers: Sequence[float], rng: random.Random
) -> torch.Tensor:
    plants = list(_plants(arg, drawn, numbers))
    if not plants:
        return drawn
    rows = drawn.clone().reshape(-1, drawn.shape[-1])
    if len(rows) >= len(plants):
        places = rng.sample(range(len(rows)), len(plants))
        # The first and the last row are where loops begin and end.
        places[: len(places)] = _with_ends(places, len(rows))
        for row, (number, way) in zip(places, plants, strict=True):
            _plant(rows[row], number, way, rng, arg)
    else:
        single = [number for number, way in plants if way == "one"]
        flat = rows.reshape(-1)
        for number in single:
            flat[rng.randrange(len(flat))] = number
        for place in (0, len(flat) - 1):
            flat[place] = rng.choice(single)
        if len(rows) > 2:
            rows[rng.randrange(1, len(rows) - 1)] = rng.choice(single)
    return rows.reshape(drawn.shape)


def _with_ends(places: list[int], rows: int) -> list[int]:
    missing = [end for end in (0, rows - 1) if end not in places]
    return [*missing, *places[len(missing) :]]


def _plant(row: torch.Tensor, number: float, way: Way, rng: random.Random, arg: Arg) -> None:
    at = rng.randrange(len(row))
    if way == "row":
        row[:] = number
    elif way == "alone":
        row[:] = 0.0 if arg.may_hold(0.0) else number
        row[at] = number
    else:
        row[{"first": 0, "last": len(row) - 1, "one": at}[way]] = number


def _plants(arg: Arg, drawn: torch.Tensor, numbers: Sequence[float]) -> Iterator[Plant]:
    """The numbers as the dtype has them, those that are legal, each in every way; then those beside
    them in the dtype."""
    allowed = [number for number in numbers if _may_hold(arg, drawn, number)]
    beside = [
        other
        for number in allowed
        for other in _beside(number, drawn.dtype)
        if _may_hold(arg, drawn, other)
    ]
    for way in WAYS:
        for number in allowed:
            yield number, way
    for way in BESIDE:
        for number in beside:
            yield number, way


def _may_hold(arg: Arg, drawn: torch.Tensor, number: float) -> bool:
    """Whether the argument may hold it after it is rounded to the dtype."""
    rounded = float(torch.tensor(number, dtype=torch.float64).to(drawn.dtype))
    if not torch.isfinite(torch.tensor(rounded)) or not arg.may_hold(rounded):
        return False
    if arg.largest is not None or arg.range is not None:
        return True
    wide = drawn.double()  # torch asks no 8-bit float whether it is finite
    finite = wide[wide.isfinite()]
    if len(set(finite[:MOST_LOOKED_AT].tolist())) < FEW:
        return False
    return float(finite.min()) <= rounded <= float(finite.max())


def _beside(number: float, dtype: torch.dtype) -> Iterator[float]:
    """The numbers next below and next above in the dtype."""
    if dtype.itemsize not in INTEGER_OF:
        return
    value = torch.tensor([number], dtype=torch.float64).to(dtype)
    bits = value.view(INTEGER_OF[dtype.itemsize])
    for step in (-1, 1):
        yield float((bits + step).view(dtype))


def _in_index(
    arg: Arg, case: Case, drawn: torch.Tensor, numbers: Sequence[int], rng: random.Random
) -> torch.Tensor:
    """The index with these numbers in places of their own, still of its kind."""
    assert arg.index is not None
    flat = drawn.clone().reshape(-1)
    width = drawn.shape[-1] if drawn.ndim else 1
    places = rng.sample(range(len(flat)), min(len(numbers), len(flat)))
    for place, number in zip(_with_ends(places, len(flat)), numbers, strict=False):
        if arg.index.kind in ("slots", "permutation", "distinct"):
            _swap(flat, place, number, len(flat) if arg.index.kind == "slots" else width)
        else:
            flat[place] = number
    found = flat.reshape(drawn.shape)
    return found.sort(dim=-1).values if arg.index.kind == "sorted" else found


def _swap(flat: torch.Tensor, place: int, number: int, width: int) -> None:
    """The number in this place; what was there stands where the number was, within the row."""
    begin = place // width * width
    row = flat[begin : begin + width]
    there = (row == number).nonzero().flatten().tolist()
    if there:
        row[there[0]] = flat[place].clone()
    flat[place] = number
