"""Value families of the arguments of drawn cases: each its own, or small ones together.

What is wrong only for a small sum or product shows where all that goes into it is small: each
argument with a family of its own seldom is so. So some cases have small numbers in all arguments
but one, or in all.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from astra_chat.tools.case import LARGE_ROWS, SEED_BITS, large_sign
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import AnyFamily, Case, is_float

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


# Large numbers that every check has: in drawn cases that have such families, else in a few more.
#
# What overflows for a large number only, such as an exponential from which the row's maximum was
# not taken, shows in a row that holds one and no NaN, which would hide it. Long rows of special
# values nearly all have a NaN, and as families are drawn, some checks would have no such row.

EXTREMES = (0, 2)
"""Last bits of a seed of special values with the largest number, of either sign, in the place of
one infinity (runners/values.py)."""
MOST_BYTES = 2**18
"""Largest least_bytes of a case with large numbers."""
NEAR_LARGEST = 64
"""Numbers of which one or more are near the largest."""

Change = Callable[[Case, bool], Case | None]
"""The case with other values; None where it is not one for them. True: only a case that has this
family already, which needs no more than another seed."""


def with_large_values(task: Task, cases: Sequence[Case], rng: random.Random) -> list[Case]:
    """The cases in their order, and what is missing among them: one for either sign that has
    special values with rows of one large number, and one for each argument that has families of
    its own with positive magnitudes. Cases of normal numbers stay: few may reach a kernel's path.
    """
    changes: list[Change] = [partial(_special, task, rng, sign) for sign in EXTREMES]
    changes += [partial(_magnitudes, task, rng, arg) for arg in task.args if arg.has_families]
    done, order = list(cases), rng.sample(range(len(cases)), len(cases))
    small = [at for at in order if task.least_bytes(cases[at]) <= MOST_BYTES]
    for change in changes:
        tried = ((at, known, change(done[at], known)) for known in (True, False) for at in small)
        found = next(((at, known, case) for at, known, case in tried if case), None)
        if found and found[1]:
            small.remove(found[0])
            done[found[0]] = found[2]
        elif found:
            done.append(found[2])
    return done


def _special(task: Task, rng: random.Random, sign: int, case: Case, known: bool) -> Case | None:
    rows = [arg for arg in task.args if _has_rows(arg, case)]
    own = [arg for arg in rows if arg.has_special]
    seed = drawn_seed(rng) & ~3 | sign | LARGE_ROWS
    if known:
        whole = case.values == "special" and rows
        there = whole or any(case.families.get(arg.name) == "special" for arg in own)
        return case.model_copy(update={"seed": seed}) if there else None
    if not rows or not _is_normal(case):
        return None
    if not own:
        return case.model_copy(update={"values": "special", "seed": seed})
    families: Families = {**_normal(task, case), rng.choice(own).name: "special"}
    return case.model_copy(update={"families": families, "seed": seed})


def _magnitudes(task: Task, rng: random.Random, arg: Arg, case: Case, known: bool) -> Case | None:
    if not _has_rows(arg, case) or math.prod(arg.shape_of(case)) < NEAR_LARGEST:
        return None
    if known and case.families.get(arg.name) != "magnitudes":
        return None
    if not known and not _is_normal(case):
        return None
    seed = case.seed
    while large_sign(seed) < 0:
        seed = drawn_seed(rng)
    families: Families = case.families if known else {**_normal(task, case), arg.name: "magnitudes"}
    return case.model_copy(update={"families": families, "seed": seed})


def _normal(task: Task, case: Case) -> Families:
    """Normal numbers in each argument that has families of its own."""
    return {arg.name: "normal" for arg in task.args if arg.has_families and arg.present(case)}


def _is_normal(case: Case) -> bool:
    return case.values == "normal" and not case.families and not case.planted


def _has_rows(arg: Arg, case: Case) -> bool:
    """Whether it is read, of floats, and its rows have more than one."""
    if not arg.read or not arg.present(case) or not is_float(arg.dtype_of(case)):
        return False
    return bool(arg.shape) and arg.shape_of(case)[-1] > 1


def drawn_seed(rng: random.Random) -> int:
    """Returns a seed for a case, above 0."""
    return 1 + rng.getrandbits(SEED_BITS)
