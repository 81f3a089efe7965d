"""A choice by shape for a tuned kernel: fitted to the tuning's cases, tried on shapes held out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from astra_chat.tools.check.hidden_cases import Weighted
from astra_chat.tools.judge import Judge
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import parameters, prototype
from astra_chat.tools.timing.comparison import resolution_of
from astra_chat.tools.timing.intervals import mean
from astra_chat.tools.tuning.shapes import (
    LEAST_HELD_OUT,
    ShapeTable,
    Split,
    best_split,
    shapes_between,
)
from astra_chat.tools.tuning.space import Point
from astra_chat.tools.types import AnyTime

Estimates = Sequence[list[AnyTime] | str]
"""Times of each point case by case, or what ended it."""


def table_for(
    judge: Judge,
    points: Sequence[Point],
    sources: Sequence[str],
    ranked: Weighted,
    estimates: Estimates,
    single: int,
) -> tuple[ShapeTable | None, str]:
    """The table and its source; "" where the single choice stays, and no table where no rule is
    faster than that. `estimates`: on the cases `ranked`. The estimates say which two points share
    the shapes; where the limit lies, say the times of these two on further shapes."""
    between, others = shapes_between(
        judge.task, judge.weighted, judge.entropy.cases.of("shapes between")
    )
    split = best_split(ranked, _by_estimate(estimates))
    if split is not None:
        split = _fitted(
            judge, sources, ranked, estimates, (single, split.below, split.above), between
        )
    if split is None:
        return None, ""
    table = ShapeTable(
        condition=split.condition,
        below=dict(points[split.below]),
        above=dict(points[split.above]),
        tuned_gain=split.gain,
    )
    source = merged(judge.task, sources[split.below], sources[split.above], split.condition)
    if len(others) < LEAST_HELD_OUT:
        return _refused(table, "too few shapes lie between the timed ones"), ""
    if source is None:
        return _refused(
            table, "the source gives C linkage to functions other than its launcher"
        ), ""
    both = [judge.time(one, others) for one in (sources[single], source)]
    alone, shared = both
    if not isinstance(alone, list) or not isinstance(shared, list):
        kinds = ", ".join(one.kind for one in both if not isinstance(one, list))
        return _refused(table, f"on held-out shapes: {kinds}"), ""
    gain, least = _ratio(shared) / _ratio(alone), resolution_of(shared, alone)
    labels = tuple(case.label for case, _ in others)
    table = table.model_copy(update={"held_out": labels, "gain": gain, "least": least})
    if gain < least:
        return _refused(table, "it gains too little on held-out shapes, or is slower there"), ""
    return table, source


def _by_estimate(estimates: Estimates) -> dict[int, list[float]]:
    return {
        point: [one.ratio for one in times]
        for point, times in enumerate(estimates)
        if not isinstance(times, str)
    }


def _fitted(
    judge: Judge,
    sources: Sequence[str],
    ranked: Weighted,
    estimates: Estimates,
    points: Sequence[int],
    between: Weighted,
) -> Split | None:
    """The best rule of these points on timed shapes and those between; an estimate of a timed shape
    on the virtual GPU is known already."""
    known = _by_estimate(estimates) if judge.device.kind == "virtual" else {}
    timed = between if known else (*judge.weighted, *between)
    ratios = dict[int, list[float]]()
    for point in points:
        times = judge.time(sources[point], timed) if timed else []
        if isinstance(times, list):
            ratios[point] = [*known.get(point, ()), *(one.ratio for one in times)]
    return best_split((*ranked, *timed) if known else timed, ratios) if ratios else None


def _ratio(times: Sequence[AnyTime]) -> float:
    return mean([(one.ratio, one.weight) for one in times])


def _refused(table: ShapeTable, why: str) -> ShapeTable:
    return table.model_copy(update={"why": why})


_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*$", re.MULTILINE)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_LINKAGE = re.compile(r'extern\s+"C"')
_MARK = re.compile(r"//\s*(tune|require):")


def merged(task: Task, below: str, above: str, condition: str) -> str | None:
    """A source whose launcher calls that of `below` where the condition holds, else that of
    `above`. None where this cannot be said of a source: where it gives C linkage to anything but
    its launcher."""
    parts = [_part(task, source, number) for number, source in enumerate((below, above))]
    if None in parts:
        return None
    names = ", ".join(name for _, name in parameters(task))
    includes = dict.fromkeys(_INCLUDE.findall(below) + _INCLUDE.findall(above))
    return "\n".join(
        [
            "// Two choices of the same constants: which of them is faster depends on the shape.",
            *includes,
            "",
            *map(str, parts),
            f"{prototype(task)} {{",
            f"  if ({condition}) return choice_0::{task.entry}_0({names});",
            f"  return choice_1::{task.entry}_1({names});",
            "}",
            "",
        ]
    )


def _part(task: Task, source: str, number: int) -> str | None:
    """One variant in its namespace; its macros end with it, and its marks are comments."""
    body = _INCLUDE.sub("", source)
    if len(_LINKAGE.findall(body)) != 1 or re.search(r'extern\s+"C"\s*\{', body):
        return None
    body = _LINKAGE.sub("static", body)
    body = re.sub(rf"\b{re.escape(task.entry)}\b", f"{task.entry}_{number}", body)
    body = _MARK.sub(r"// \1 was:", body)
    undone = [f"#undef {name}" for name in dict.fromkeys(_DEFINE.findall(body))]
    lines = [f"namespace choice_{number} {{", body.strip(), *undone, f"}}  // choice_{number}", ""]
    return "\n".join(lines)
