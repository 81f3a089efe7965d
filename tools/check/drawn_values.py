"""Value families of the arguments of drawn cases: each its own, or small ones together.

What is wrong only for a small sum or product shows where all that goes into it is small: each
argument with a family of its own seldom is so. So some cases have small numbers in all arguments
but one, or in all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from astra_chat.tools.task.contract import Arg
from astra_chat.tools.types import AnyFamily

OF_ARGUMENTS: tuple[AnyFamily, ...] = (
    *("normal",) * 4,
    *("magnitudes", "row_magnitudes", "shifted") * 2,
    "zeros",
    "large",
    "tiny",
    "denormal",
    "ramp",
    "one_hot",
    "heavy_tail",
    "binary",
)
SMALL: tuple[AnyFamily, ...] = ("denormal", "tiny", "zeros")
SPECIAL_ONE_IN = 10
"""Cases in which one argument holds NaN, infinities and zeros, and the others normal numbers: what
becomes of them beside numbers of all magnitudes depends on the formula."""
IN_ALL_ONE_IN = 3
"""Cases of special values that have them in all arguments, as a task's own have."""

Families = dict[str, AnyFamily]
"""Value family of each argument, by its name."""


def of_each(args: Sequence[Arg], rng: random.Random) -> Families:
    """Draws a family of its own for each of these arguments."""
    if any(arg.has_special for arg in args) and rng.randrange(SPECIAL_ONE_IN) == 0:
        return special(args, rng)
    return {arg.name: rng.choice(OF_ARGUMENTS) for arg in args}


def special(args: Sequence[Arg], rng: random.Random) -> Families:
    """Special values in one of these arguments where they are legal, or in all of those."""
    able = [arg.name for arg in args if arg.has_special]
    some = able if rng.randrange(IN_ALL_ONE_IN) == 0 else [rng.choice(able)]
    return {arg.name: "special" if arg.name in some else "normal" for arg in args}


def mixed_in_one(args: Sequence[Arg], rng: random.Random) -> Families:
    """Rows of all families, special ones too, in one of these arguments that has several; normal
    numbers in the others. None where special values are legal in none."""
    able = [arg for arg in args if arg.has_special and len(arg.shape) > 1]
    mixed = rng.choice(able) if able else None
    return {arg.name: "mixed_rows" if arg is mixed else "normal" for arg in args if mixed}


def small_together(args: Sequence[Arg], rng: random.Random) -> Iterator[Families]:
    """Small numbers in all of these arguments, and in all but one, for each in turn: one of the
    small ones takes each family of SMALL, the others any. None of a single argument, which gets
    families of its own."""
    for spared in (None, *args) if len(args) > 1 else ():
        small = [arg for arg in args if arg is not spared]
        for family in SMALL:
            drawn = {arg.name: rng.choice(SMALL) for arg in small}
            drawn[rng.choice(small).name] = family
            yield drawn if spared is None else {**drawn, spared.name: "normal"}
