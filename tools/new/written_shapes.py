"""Shapes of results that nothing states: what calls on the virtual GPU write of them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.new.draft import Draft, Tensor
from astra_chat.tools.new.extents import extent_of
from astra_chat.tools.new.layout import GUESSED, PARTLY, SEVERAL
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.buffer_layout import Mask, background, gathered
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import ITEM_BYTES, Case
from astra_vgpu.ground.errors import BadInput

MOST_BYTES = 2**21
"""Bytes of a case at most: the virtual GPU runs all of its blocks in a second or two."""
MOST_CASES = 4
FEWEST_CASES = 2
"""An expression in dims needs several cases to follow from."""
TIMES = 3
"""Calls of each case, one of them over numbers and two over NaNs, whose bytes a code may have."""
DOUBTS = frozenset({GUESSED, PARTLY, SEVERAL})
_SEED = "44"
Written = dict[str, list[int]]
"""Elements that are written, without a gap from the first, by argument, in each case."""


def guessed(draft: Draft) -> list[str]:
    """Names of the results whose shape is a guess."""
    if draft.reference:
        return []  # its shapes come with it
    return [t.name for t in draft.tensors if t.access == "write" and DOUBTS & {*t.doubts}]


def with_written_shapes(draft: Draft, task: Task, made: Build) -> Draft:
    """The draft with the shapes that the baseline fills. It is as it was where calls fail: then
    the shape of something else is wrong."""
    cases = list(_cases(task))
    if len(cases) < FEWEST_CASES:
        return draft
    written = _written(task, made, cases, guessed(draft))
    args = {arg.name: arg for arg in task.args}
    told = {name: _told(args[name], cases, counts) for name, counts in written.items()}
    made_of = tuple(_with(t, told.get(t.name)) for t in draft.tensors)
    same = same_sizes(cases)
    return replace(draft, tensors=tuple(doubted(t, told.get(t.name), same) for t in made_of))


def same_sizes(cases: Sequence[Case]) -> dict[str, list[str]]:
    """Dims that have one size in all cases, by that size."""
    found: dict[str, list[str]] = {}
    for dim, size in cases[0].dims.items():
        if all(case.dims[dim] == size for case in cases):
            found.setdefault(str(size), []).append(dim)
    return found


def doubted(tensor: Tensor, told: str | None, same: Mapping[str, Sequence[str]]) -> Tensor:
    """With a doubt where a number of its shape may be a dim: the cases cannot tell these apart."""
    numbers = [number for number in re.findall(r"\b\d+\b", told or "") if number in same]
    doubts = [f"is {number} this number, or {' or '.join(same[number])}?" for number in numbers]
    return replace(tensor, doubts=(*tensor.doubts, *dict.fromkeys(doubts)))


def _cases(task: Task) -> Iterator[Case]:
    """The first cases with dims of their own, of one combination of dtypes."""
    found: list[Case] = []
    for case in task.check:
        alike = not found or (case.dtype, case.types) == (found[0].dtype, found[0].types)
        new = all(case.dims != other.dims for other in found)
        moved = sum(arg.bytes_of(case) for arg in task.args if arg.access != "workspace")
        whole = not case.absent and moved <= MOST_BYTES
        if alike and new and whole and len(found) < MOST_CASES:
            found.append(case)
            yield case


def _written(task: Task, made: Build, cases: Sequence[Case], names: Collection[str]) -> Written:
    """Nothing where a call fails."""
    changed: dict[str, list[Mask]] = {name: [] for name in names}
    with closing(Oracle(task)) as oracle:
        try:
            known = oracle.oracle_cases(cases, Stop())
        except BadInput:
            return {}
        runner = Runner(task, pick_device("virtual"), seed=Entropy(_SEED).cases)
        calls = [Call(one) for one in known for _ in range(TIMES)]
        for run in runner.run_calls(made, calls, "check"):
            if not isinstance(run, CaseRun):
                return {}
            for arg in task.args:
                if arg.name in changed:
                    changed[arg.name].append(_changed(arg, run))
    return {
        name: [
            _without_gap(np.logical_or.reduce(masks[at : at + TIMES]))
            for at in range(0, len(masks), TIMES)
        ]
        for name, masks in changed.items()
    }


def _changed(arg: Arg, run: CaseRun) -> Mask:
    """Which elements do not hold what was there before the call."""
    case = run.oracle_case.case
    before, _ = gathered(arg, case, background(arg, case, run.pattern))
    differs: Mask = run.after(arg)[0] != before
    return np.asarray(differs.reshape(-1, ITEM_BYTES[arg.dtype_of(case)]).any(axis=1), np.bool_)


def _without_gap(written: Mask) -> int:
    """How many elements are written, all of them the first ones; -1 where there is a gap."""
    places = np.flatnonzero(written)
    return -1 if len(places) and places[-1] + 1 != len(places) else len(places)


def _told(arg: Arg, cases: Sequence[Case], written: Sequence[int]) -> str | None:
    """What the calls tell of an argument: an expression for what is written of it; "" where that is
    all of it, and None where it is nothing sure."""
    if min(written, default=0) < 1:
        return None
    if list(written) == [math.prod(arg.shape_of(case)) for case in cases]:
        return ""
    return extent_of(written, [case.dims for case in cases])


def _with(tensor: Tensor, told: str | None) -> Tensor:
    if told is None or (told and PARTLY in tensor.doubts):  # what the code states of it stays
        return tensor
    sure = replace(tensor, doubts=tuple(d for d in tensor.doubts if d not in DOUBTS))
    return replace(sure, shape=_axes(told), strides=()) if told else sure


def _axes(count: str) -> tuple[str, ...]:
    """Factors of a count are axes; a sum is one axis."""
    factors = re.split(r"\*(?![^()]*\))", count)
    return (count,) if any(" " in re.sub(r"\([^()]*\)", "", f) for f in factors) else tuple(factors)
