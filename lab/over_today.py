"""Live winners over what engines launch today:
`python -m lab.over_today RUN... --baselines FILE... > docs/research/over-today.md`.

RUN is what live_runs takes, FILE what `lab.baselines measure` wrote. With `--winners` that times a
winner and each of today's kernels side by side (lab/side_by_side.py): these tables come first. For
what no such file has, both were timed in two runs, each beside our `sglang` baseline on the same
kind of GPU, and the ratio of a case is the quotient of both. Comparisons with an earlier winner or
an earlier version of our baseline are left out, and cases that none of today's kernels takes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from astra_chat.models.script import load_script, scripted_names
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.timing.comparison import BETWEEN_EVALUATIONS
from astra_chat.tools.types import candidate_id
from lab.baselines.evidence import Comparison, Evidence
from lab.baselines.evidence import read as read_evidence
from lab.commands import one_line_errors
from lab.live_runs import LiveRun, fastest_run, gpus_of, load, short
from lab.result_tables import geomean, table_row
from lab.rivals import read_registry
from lab.side_by_side import TaskSideBySide, legend, not_run, not_timed, sections, side_by_side
from lab.winners import fastest

TODAY = "today"
OPENING = """\
# Live winners over today's kernels

This page is written by `python -m lab.over_today`. *over today* is the speed of a task's fastest
live winner from `sglang` divided by that of the fastest kernel, among those that can be run here,
that an engine launches today for each case; means are geometric and weighted by case.
lab/rivals.toml lists which kernels engines launch, for which calls, and why some are not run; it
was read on {read} in
{versions}; `python -m lab.rivals check WHEEL` shows what has changed in another version.
[baselines.md](baselines.md) says where these kernels do not meet the contracts. Only the device
time of single launches is compared here; [decode-layer.md](decode-layer.md) shows the gain of a
whole step."""
SIDE_BY_SIDE = """
*Side by side* means alternately in one process, on the same buffers, with the judge's method; the
winner's results were compared with the oracle. The L2 is cold unless a column says warm. The
fastest rival of a case is the one with the lowest ratio. The suffix `-pdl` marks a kernel with
programmatic dependent launch, as in its engine: each launch, of rival and winner, then follows a
small kernel (torch's addition to one element) in a chain of at least 20 if memory allows, and
the small kernel's time is subtracted. Without the suffix, the launch is a plain one. Cases with a
ratio below 1 are lost."""
BY_QUOTIENT = f"""
The winner and today's kernel were timed in separate runs in November 2026, each against our
`sglang` baseline. Each figure is therefore the quotient of two ratios; it varies by
{BETWEEN_EVALUATIONS:.1%} (root mean square) from run to run."""
CORRECTIONS = """
Corrected on 27 November 2026: SGLang 0.5.23 launches Triton kernels for all calls of topk_softmax
and for small ones of moe_align_block_size. On one H200, in a separate measurement, the winner of
topk_softmax was 1.81 times as fast as SGLang's router over 16 cases (0.87 at 16x2x8 bfloat16: lost;
4.04 at 4096x10x512), and the winner of moe_align_block_size 1.26 to 2.69 times as fast as its
kernel for up to 64 ids (mean 1.49, five cases). Where the tables below name the library for
topk_softmax, or for moe_align_block_size up to 64 ids, they compare with a kernel that SGLang does
not launch. With these corrections, the mean of the H100's six tasks would be about 1.58
(estimated); the H200's table has neither task. moe_sum_reduce is compared with the library, too,
although SGLang launches a Triton kernel for up to 32 tokens; so is silu_and_mul, although SGLang
launches a kernel compiled at run time for it."""

SUMMARY = """\
The table gives the speedup of each task's fastest winner over the fastest kernel that SGLang
0.5.23 or FlashInfer 0.7.2 launches today for each case, among those that we can run. [Over today's
kernels](research/over-today.md) names the kernels, the lost cases, what was not run, and what was
corrected. *Side by side*: winner and rival were timed in one run; *two runs*: each was timed
against our baseline; *both*: some rivals in one way, some in the other. The ratio of a case is the
lowest over its rivals. The *two runs* figures compare topk_softmax and small calls of
moe_align_block_size with a library that SGLang no longer calls for them."""


@dataclass(frozen=True)
class OverToday:
    """A task's winner on one kind of GPU."""

    task: str
    ratio: float
    """Speed over our baseline, on all timed cases."""
    cases: tuple[tuple[str, float, float], ...]
    """Label, ratio over the fastest of today's kernels, and weight."""
    all_cases: int
    kernels: tuple[str, ...]
    """Names of those that were fastest somewhere."""

    @property
    def mean(self) -> float:
        return geomean([ratio for _, ratio, _ in self.cases], [w for _, _, w in self.cases])

    @property
    def least(self) -> tuple[str, float]:
        label, ratio, _ = min(self.cases, key=lambda case: case[1])
        return label, ratio


def fastest_today(found: Iterable[Comparison], now: str) -> dict[str, tuple[float, str]]:
    """Returns by case how many times as fast as our baseline today's fastest kernel is, and its
    name. `now`: the id of our baseline."""
    best: dict[str, tuple[float, str]] = {}
    for one in found:
        sides = (one.first, one.second)
        ours = next((side for side in sides if side.name == "sglang"), None)
        theirs = next((side for side in sides if side.tier == TODAY), None)
        if ours is None or theirs is None or ours.content != now:
            continue
        for case in one.cases:
            ratio = case.ratio if one.second == theirs else 1 / case.ratio
            best[case.case.label] = max(best.get(case.case.label, (0.0, "")), (ratio, theirs.name))
    return best


def over_today(runs: Sequence[LiveRun], evidence: Iterable[Evidence], gpu: str) -> list[OverToday]:
    """Returns an entry for each task that has a measured winner and a kernel of today, by name."""
    known = [c for one in evidence if one.device.name == gpu for c in one.comparisons]
    some = [run for run in runs if run.arm[0] == "sglang" and run.timed_on(gpu)]
    found = []
    for name in sorted({run.summary.task for run in some}):
        run = fastest_run(some, name, gpu)
        assert run is not None
        now = candidate_id(find_task(name).baseline)
        today = fastest_today((c for c in known if c.task == name), now)
        timed = run.timed_on(gpu)
        assert timed is not None
        labelled = [(time.case.label, time) for time in timed.cases]
        cases = tuple(
            (label, time.ratio / today[label][0], time.weight)
            for label, time in labelled
            if label in today
        )
        if cases:
            kernels = tuple(sorted({today[label][1] for label, _, _ in cases}))
            found.append(OverToday(name, timed.ratio, cases, len(labelled), kernels))
    return found


def winners_on(runs: Sequence[LiveRun], gpu: str) -> dict[str, str]:
    """Ids of the fastest winners from `sglang` on a GPU, by task."""
    found = {}
    for task in sorted({run.summary.task for run in runs}):
        run = fastest_run(runs, task, gpu)
        if run and (speed := fastest(run.summary)):
            found[task] = speed.candidate
    return found


def scripted_kernels(found: Iterable[Comparison]) -> dict[str, str]:
    """Returns the ids of kernels of the tasks' scripts that were timed as winners, by task; of
    several of one task, the one that comes last in its script."""
    timed = {(one.task, one.second.content) for one in found if one.second.tier == "winner"}
    last = {}
    for task in sorted({task for task, _ in timed} & set(scripted_names())):
        for source in load_script(find_task(task)).sources.values():
            if (task, candidate_id(source)) in timed:
                last[task] = candidate_id(source)
    return last


class MeasuredThere(NamedTuple):
    """What was timed side by side on one GPU."""

    days: dict[str, str]
    """The day of each task."""
    tasks: list[TaskSideBySide]
    scripted: list[str]
    """Tasks that no live run timed: their winner is a kernel of the script."""


def measured_beside(
    runs: Sequence[LiveRun], evidence: Sequence[Evidence]
) -> dict[str, MeasuredThere]:
    """Returns what was timed side by side, by GPU; of one pair the last file counts."""
    measured, registry = {}, read_registry()
    for gpu in sorted({one.device.name for one in evidence}):
        there = [one for one in evidence if one.device.name == gpu]
        pairs = {(c.task, c.first, c.second): c for one in there for c in one.comparisons}
        live = winners_on(runs, gpu)
        winners = scripted_kernels(pairs.values()) | live
        counts = {task: len(find_task(task).bench) for task in winners}
        if found := side_by_side(pairs.values(), winners, counts, registry):
            beside = ((one.day, c) for one in there for c in one.comparisons)
            days = {c.task: day for day, c in beside if c.second.tier == "winner"}
            scripted = sorted({one.task for one in found} - set(live))
            measured[gpu] = MeasuredThere(days, found, scripted)
    return measured


def document(runs: Sequence[LiveRun], evidence: Sequence[Evidence]) -> str:
    registry, measured = read_registry(), measured_beside(runs, evidence)
    versions = ", ".join(f"{name} {version}" for name, version in registry.versions.items())
    lines = [OPENING.format(versions=versions, read=registry.read)]
    if measured:
        lines.append(SIDE_BY_SIDE)
    for gpu, (days, found, scripted) in sorted(measured.items()):
        lines += sections(gpu, " and ".join(sorted({*days.values()} - {""})), found)
        if scripted:
            names = ", ".join(scripted)
            lines += [
                "",
                f"No live run timed these tasks; the kernels are from their scripts: {names}.",
            ]
        if left := list(not_timed(registry, found)):
            lines += ["", "### Not timed here", "", *left]
    lines += _by_quotient(runs, evidence, measured)
    known = [c for one in evidence for c in one.comparisons if c.cases]
    timed = {(c.task, side.name) for c in known for side in (c.first, c.second)}
    lines += ["", "## Not run", "", *not_run(registry, timed)]
    tasks = dict.fromkeys(rival.task for rival in registry.rival if rival.task)
    lines += ["", "## Names", "", *(line for task in tasks for line in legend(registry, task))]
    return "\n".join(lines)


def summary(runs: Sequence[LiveRun], evidence: Sequence[Evidence]) -> Iterator[str]:
    """Yields the section of docs/results.md: a row a task, for each GPU."""
    measured = measured_beside(runs, evidence)
    gpus = gpus_of(runs)
    rows: dict[str, dict[str, SummaryRow]] = {}
    for gpu in gpus:
        days, beside, _ = measured.get(gpu, MeasuredThere({}, [], []))
        sides = {one.task: one for one in beside}
        quotients = {one.task: one for one in over_today(runs, evidence, gpu)}
        for task in {*sides, *quotients}:
            one, known = sides.get(task), quotients.get(task)
            rows.setdefault(task, {})[gpu] = _row(one, known, f"side by side, {days.get(task)}")
    if not rows:
        return
    yield from ("", "## Over today's kernels", "", SUMMARY, "")
    heads = [head for gpu in gpus for head in (f"{short(gpu)}: ratio", "slowest case", "timed in")]
    yield table_row("task", *heads)
    yield table_row(*["---"] * (1 + len(heads)))
    for task, by_gpu in sorted(rows.items()):
        cells = (by_gpu[gpu].cells if gpu in by_gpu else ("",) * 3 for gpu in gpus)
        yield table_row(task, *chain.from_iterable(cells))
    yield ""
    for gpu in gpus:
        means = [row.mean for by in rows.values() if (row := by.get(gpu)) and not row.share]
        if means:
            whole = f"{len(means)} tasks with a rival for every case"
            yield f"Geometric mean on an {short(gpu)} over the {whole}: **{geomean(means):.2f}**."


@dataclass(frozen=True)
class SummaryRow:
    """A task on one GPU."""

    mean: float
    lowest: float
    share: str
    """How many cases have a rival, unless all have."""
    where: str

    @property
    def cells(self) -> tuple[str, str, str]:
        return f"{self.mean:.2f}{self.share}", f"{self.lowest:.2f}", self.where


def _row(side: TaskSideBySide | None, quotient: OverToday | None, when: str) -> SummaryRow:
    """A task's mean, its slowest case and where they were timed. Of a task whose rivals were not
    all timed side by side, each case counts by the lower of both ratios."""
    cases: dict[str, tuple[float, float]] = {}
    if side:
        cases = {one.label: (one.time.ratio, one.time.weight) for one in side.cases}
    where = when if side else "two runs"
    if quotient and not (side and side.is_whole):
        for label, ratio, weight in quotient.cases:
            cases[label] = min(cases.get(label, (math.inf, weight)), (ratio, weight))
        where = "both" if side else "two runs"
    all_cases = side.all_cases if side else quotient.all_cases if quotient else 0
    share = "" if len(cases) == all_cases else f" ({len(cases)} of {all_cases} cases)"
    mean = geomean([ratio for ratio, _ in cases.values()], [w for _, w in cases.values()])
    return SummaryRow(mean, min(ratio for ratio, _ in cases.values()), share, where)


def _whole(beside: Iterable[TaskSideBySide]) -> set[str]:
    """Tasks of which every case and rival was timed side by side: they need no quotient."""
    return {one.task for one in beside if one.is_whole}


def _by_quotient(
    runs: Sequence[LiveRun],
    evidence: Sequence[Evidence],
    measured: Mapping[str, MeasuredThere],
) -> Iterator[str]:
    """Yields tables of the tasks that were not timed side by side on all cases, with what is known
    to be wrong of them."""
    first = True
    for gpu in sorted({gpu for run in runs for gpu in run.measured}):
        whole = _whole(measured[gpu].tasks) if gpu in measured else set()
        found = [one for one in over_today(runs, evidence, gpu) if one.task not in whole]
        if not found:
            continue
        if first:
            yield from (BY_QUOTIENT, CORRECTIONS)
            first = False
        yield from ("", f"## On {gpu}, computed through our baseline", "")
        yield table_row(
            "task", "over `sglang`", "over today", "slowest case", "cases", "today's fastest"
        )
        yield table_row(*["---"] * 6)
        for one in found:
            label, least = one.least
            yield table_row(
                one.task,
                f"{one.ratio:.2f}",
                f"{one.mean:.2f}",
                f"{least:.2f} ({label})",
                f"{len(one.cases)} of {one.all_cases}",
                ", ".join(one.kernels),
            )
        below = sum(one.mean < 1 for one in found)
        yield ""
        mean = geomean([one.mean for one in found])
        yield f"Geometric mean over these {len(found)} tasks: **{mean:.2f}**; below 1: {below}."


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.over_today")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--baselines", nargs="+", type=Path, metavar="FILE", required=True)
    given = parser.parse_args()
    print(document(load(given.runs), [read_evidence(path) for path in given.baselines]))


if __name__ == "__main__":
    main()
