"""Batch invariance as a part of a contract: a row's result has the same bits in every batch."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from pydantic import Field

from astra_chat.tools.task.contract import Arg, Name
from astra_chat.tools.task.expressions import parse
from astra_chat.tools.types import Case, Value

Problem = tuple[tuple[str | int, ...], str]
COMPARED = ("close", "exact", "quantized")
"""Judgements of results whose bits a contract may fix; others let a kernel choose among several."""


class BatchInvariant(Value):
    """Which dim counts the rows, and the results of which each row depends on its own row only."""

    rows: Name
    outputs: tuple[Name, ...] = Field(min_length=1)

    @property
    def text(self) -> str:
        """The rule as a sentence for people and models."""
        names = " and ".join(self.outputs)
        return (
            f"a row of {names} must have the same bits whatever {self.rows} is and wherever the"
            " row is in the batch; the judge repeats rows of one call in other calls, in"
            " different numbers and orders, and compares their bits"
        )


def larger(case: Case, rows: str) -> Case:
    """Returns the call of which a case with `rows_of` has some rows."""
    return case.model_copy(
        update={"dims": {**case.dims, rows: case.rows_of}, "rows_of": 0, "rows_draw": 0}
    )


def taken(case: Case, rows: str) -> list[int]:
    """Returns for each row of a case its place in the larger call; without `rows_of` its own."""
    count = case.dims[rows]
    if not case.rows_of:
        return list(range(count))
    drawn = random.Random(f"{case.seed} {count} {case.rows_of} {case.rows_draw}")
    return drawn.sample(range(case.rows_of), count)


def has_rows(arg: Arg, rows: str) -> bool:
    """Whether each entry of an argument along its first axis belongs to a row of the batch."""
    return arg.shape[0] == rows


def invariance_problems(
    rule: BatchInvariant | None, args: Sequence[Arg], dims: Sequence[str]
) -> Iterator[Problem]:
    """What the rule says that cannot be."""
    if rule is None:
        return
    place = ("batch_invariant",)
    if rule.rows not in dims:
        yield (*place, "rows"), f"no dim is named '{rule.rows}'"
        return
    by_name = {arg.name: arg for arg in args}
    for name in rule.outputs:
        arg = by_name.get(name)
        if arg is None or not arg.written or not has_rows(arg, rule.rows):
            what = f"'{name}' is not a result with {rule.rows} as its first extent"
            yield (*place, "outputs"), what
        elif arg.judged and arg.judged.by not in COMPARED:
            what = f"'{name}' is judged by {arg.judged.by}: the kernel may choose its bits"
            yield (*place, "outputs"), what
    for arg in args:
        others = arg.shape[1:] if has_rows(arg, rule.rows) else arg.shape
        bounds = (arg.index.start, arg.index.below) if arg.index else ()
        if any(rule.rows in parse(text).names for text in (*others, *bounds)):
            what = f"{arg.name} depends on {rule.rows} in more than its first extent"
            yield (*place, "rows"), what


def rows_flaw(rule: BatchInvariant | None, case: Case) -> str:
    """Why a case cannot have some rows of a larger call, or ""."""
    if not case.rows_of:
        return ""
    if rule is None:
        return "rows_of requires a task with batch_invariant"
    if case.dims[rule.rows] > case.rows_of:
        return f"rows_of = {case.rows_of} is less than {rule.rows} = {case.dims[rule.rows]}"
    return ""
