"""Live runs beside the figures of the Astra paper (arXiv 2509.07506): tables of docs/results.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lab.live_runs import LiveRun
from lab.paper_method import PaperMethod
from lab.result_tables import geomean, table_row
from lab.winners import fastest

PAPER = {
    "merge_state_v2": ("1.26", "0.73"),
    "fused_add_rmsnorm": ("1.25", "1.18"),
    "silu_and_mul": ("1.46", "1.48"),
}
"""Team and single agent in the paper (table 3), over its own start, on an H100 by its own
timing."""
ARMS = [(start, arm) for start in ("paper", "sglang") for arm in ("team", "single")]


def tasks_of(runs: Sequence[LiveRun]) -> list[str]:
    """Returns the tasks of these runs, the paper's first, in its order."""
    there = {run.summary.task for run in runs}
    return [*(task for task in PAPER if task in there), *sorted(there - set(PAPER))]


def middle_and_range(values: Sequence[float]) -> str:
    if not values:
        return ""
    middle = f"{statistics.median(values):.2f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):.2f} to {max(values):.2f}, {len(values)} runs)"


def beside_the_paper(runs: Sequence[LiveRun], ratios: Mapping[Path, float]) -> Iterator[str]:
    """A row a task of the paper, each arm by the median of its runs."""
    heads = [f"from `{start}`, {arm}" for start, arm in ARMS]
    yield table_row("task", "paper, H100: team", "paper, H100: single", *heads)
    yield table_row(*["---"] * (3 + len(heads)))
    for task in tasks_of(runs):
        cells = (middle_and_range(of_arm(runs, task, arm, ratios)) for arm in ARMS)
        yield table_row(task, *PAPER.get(task, ("", "")), *cells)


def of_arm(
    runs: Sequence[LiveRun], task: str, arm: tuple[str, str], ratios: Mapping[Path, float]
) -> list[float]:
    some = [run for run in runs if (run.summary.task, run.arm) == (task, arm)]
    return [ratios[run.path] for run in some if run.path in ratios]


def by_its_method(runs: Sequence[LiveRun], method: PaperMethod) -> Iterator[str]:
    """Yields the table by the paper's timing: every winner over the paper's start, on its twelve
    cases."""
    papers = [run for run in runs if run.summary.task in PAPER]
    ratios = {run.path: ratio for run in papers if (ratio := _by_events(run, method))}
    yield from ("", f"## With the paper's timing, on {method.device.name}", "")
    least = min(method.times, key=lambda time: time.mean_us)
    yield "This table gives each winner's speedup over the paper's baseline, whichever baseline"
    yield "its run had, on the paper's twelve cases: 20 launches to warm up, then the mean of 100"
    yield "event pairs in a C loop. A pair takes longer than a small call: the shortest time is"
    yield f"{least.mean_us:.2f} us, for a kernel that takes {least.cold_us:.2f} us in a graph"
    yield "with a cold L2, so these figures are less informative than the times above."
    yield ""
    yield from beside_the_paper(papers, ratios)
    medians = [
        statistics.median(some)
        for task in PAPER
        if (some := of_arm(papers, task, ("paper", "team"), ratios))
    ]
    if len(medians) == len(PAPER):
        yield ""
        starts = [
            geomean([t.mean_us for t in method.times if (t.task, t.kernel) == (task, "paper")])
            for task in PAPER
        ]
        yield f"Geometric mean of teams that started from `paper`: **{geomean(medians):.2f}**"
        yield "(1.32 in the paper). A kernel that did nothing, and so had the shortest time in"
        yield f"every case, would reach {geomean(starts) / least.mean_us:.2f}."


def _by_events(run: LiveRun, method: PaperMethod) -> float | None:
    """Geometric mean over the cases that its winner and the paper's start were timed on."""
    speed = fastest(run.summary)
    its = {
        time.case.label: time.mean_us
        for time in method.times
        if speed and (time.task, time.content) == (run.summary.task, speed.candidate)
    }
    ratios = [
        time.mean_us / its[time.case.label]
        for time in method.times
        if (time.task, time.kernel) == (run.summary.task, "paper") and time.case.label in its
    ]
    return geomean(ratios) if ratios else None
