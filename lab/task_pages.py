"""A page for each task: of the live runs its winners, the fastest case by case, how it was found:
`python -m lab.task_pages RUN... --baselines FILE... -o docs/results`.

RUN is what live_runs takes, FILE a file of research.baselines: what launches nothing, what only
moves the bytes, and what is launched today, measured on a GPU of the same kind in another run. Run
in the repository's root: pages name the paths that are given here, absolute ones from the root.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_chat.tools.system.files import write_whole
from astra_chat.tools.task.folder import Task, find_task, task_names
from astra_chat.tools.text import one_line
from astra_chat.tools.timing.intervals import mean_interval
from astra_chat.tools.types import AnyTime, Timed, candidate_id
from astra_chat.transcript.summary import AttemptSummary, RoundSummary
from lab.baselines.evidence import Comparison, Evidence, of_task
from lab.baselines.evidence import read as read_evidence
from lab.commands import one_line_errors
from lab.live_runs import LiveRun, fastest_run, gpus_of, load
from lab.over_today import fastest_today
from lab.result_tables import large_cases, table_row
from lab.rivals import read_registry
from lab.side_by_side import fastest_rivals
from lab.winners import fastest, verdict_of

WORDS = (
    "Times are device times in us, with a cold L2. *over today* is the speedup over the fastest",
    "kernel of today's SGLang or FlashInfer that can be run: it was timed side by side or computed",
    "through the baseline; the lower figure counts ([over today](../research/over-today.md)).",
    "*% of limit* is the physical limit divided by the time. *% of streaming* is the bandwidth of",
    "calls larger than the L2, relative to our fastest kernel that only moves the same bytes.",
    "*above empty* is the time beyond an empty launch. The last two, and computed speedups, come",
    "from another run on the same kind of GPU ([baselines](../research/baselines.md)).",
)


@dataclass(frozen=True)
class Floors:
    """What no kernel of one task is expected to beat on one kind of GPU, by the case's label."""

    empty_us: dict[str, float]
    """Microseconds of a launch that does nothing."""
    bytes_per_us: dict[str, float]
    """Bytes per microsecond of the fastest streaming kernel."""
    today: dict[str, float]
    """How many times as fast as the baseline today's fastest kernel is."""
    over_today: dict[str, float]
    """Ratios of the winner over today's fastest kernel, where they were timed side by side."""


def floors(task: Task, found: Sequence[Comparison], winner: str) -> Floors:
    """`winner`: the id of the winner that a page is about."""
    empty_us, bytes_per_us = dict[str, float](), dict[str, float]()
    for one in found:
        for index, case in enumerate(one.cases):
            label = case.case.label
            if one.first.tier == "empty":
                empty_us[label] = case.baseline_us
            if one.first.tier == "streaming":
                moved = one.first_bytes[index] if one.first_bytes else task.least_bytes(case.case)
                rate = moved / case.baseline_us
                bytes_per_us[label] = max(bytes_per_us.get(label, 0.0), rate)
    today = fastest_today(found, candidate_id(task.baseline))
    beside = [one for one in found if one.second.tier == "winner" and one.second.content == winner]
    return Floors(
        empty_us,
        bytes_per_us,
        {label: ratio for label, (ratio, _) in today.items()},
        {one.label: one.time.ratio for one in fastest_rivals(beside)},
    )


def page(name: str, runs: Sequence[LiveRun], evidence: Sequence[Evidence]) -> str:
    task = find_task(name)
    own = [run for run in runs if run.summary.task == name]
    if not own:
        return "\n".join([*_without_runs(task), ""])
    return "\n".join([*_opening(task, own), *_on_gpus(task, own, evidence), *_how(own), ""])


def _opening(task: Task, runs: Sequence[LiveRun]) -> Iterator[str]:
    yield from (f"# {task.name}", "", f"{task.summary}.", "")
    yield "This page lists the task's live runs (`python -m lab.task_pages`);"
    yield "[results.md](../results.md) covers all tasks. To see a run's sources, prompts and"
    yield f"answers: `astra-chat report {runs[0].written_path} -o report.html`."
    gpus = gpus_of(runs)
    yield ""
    yield table_row("run", "baseline", "winner", "found by estimate", *gpus)
    yield table_row(*["---"] * (4 + len(gpus)))
    for run in runs:
        speed, best = fastest(run.summary), run.summary.best
        guess = f"{speed.ratio:.2f} ({speed.low:.2f} to {speed.high:.2f})" if speed else ""
        estimated = guess if run.summary.device.kind == "virtual" else ""
        yield table_row(
            run.place,
            f"`{run.arm[0]}`",
            f"`{speed.candidate}`" if speed else "none",
            estimated if best or not estimated else f"{estimated}, a tie",
            *(_said(run, gpu) for gpu in gpus),
        )


def _without_runs(task: Task) -> Iterator[str]:
    """Yields what there is of a task that no live run has optimized yet: what it will be timed on,
    and beside what."""
    yield from (f"# {task.name}", "", f"{task.summary}.", "")
    yield "No live run of this task has been measured on a GPU yet. This page is written by"
    yield "`python -m lab.task_pages` and lists the timed cases and what engines launch today."
    yield from ("", table_row("case", "weight", "MB"), table_row("---", "---", "---"))
    for case, weight in task.bench:
        yield table_row(case.label, f"{weight:g}", f"{task.least_bytes(case) / 1e6:.2f}")
    yield from ("", table_row("today", "kernel", "used for"), table_row("---", "---", "---"))
    for rival in read_registry().of_task(task.name):
        yield table_row(rival.package, rival.kernel, rival.calls)


def _said(run: LiveRun, gpu: str) -> str:
    if gpu not in run.measured:
        return ""
    found, timed = run.measured[gpu], run.timed_on(gpu)
    if timed is None:
        return f"**{found.outcome.kind}**"
    low, high = mean_interval(timed.cases)
    return f"{timed.ratio:.3f} ({low:.3f} to {high:.3f}), {verdict_of(found)}"


def _on_gpus(task: Task, runs: Sequence[LiveRun], evidence: Sequence[Evidence]) -> Iterator[str]:
    yield from ("", *WORDS)
    for gpu in gpus_of(runs):
        if run := fastest_run(runs, task.name, gpu):
            there = [one for one in evidence if one.device.name == gpu]
            timed, speed = run.timed_on(gpu), fastest(run.summary)
            assert timed is not None and speed is not None
            known = floors(task, of_task(there, task.name), speed.candidate)
            yield from ("", f"## Fastest winner from `sglang` on {gpu}", "")
            yield from (f"It is `{speed.candidate}` from {run.name}.", "")
            yield from _cases(task, timed, known, run.measured[gpu].device.spec)


def _cases(task: Task, timed: Timed, known: Floors, gpu: str) -> Iterator[str]:
    """Yields the table of a task's timed cases. `gpu`: its key in ground/gpu_specs.py."""
    large = {case.case.label for case in large_cases(task.name, timed.cases, gpu)}
    yield table_row(
        "case",
        "weight",
        "`sglang`",
        "winner",
        "ratio, 95 %",
        "over today",
        "% of limit",
        "% of streaming",
        "above empty",
    )
    yield table_row(*["---"] * 9)
    for case in timed.cases:
        yield table_row(*_cells(task, case, known, case.case.label in large))


def _cells(task: Task, case: AnyTime, known: Floors, large: bool) -> Iterator[str]:
    label = case.case.label
    yield from (label, f"{case.weight:g}", f"{case.baseline_us:.2f}", f"{case.median_us:.2f}")
    yield f"{case.ratio:.3f} ({case.ratio_low:.3f} to {case.ratio_high:.3f})"
    ratios = [known.over_today[label]] if label in known.over_today else []
    ratios += [case.ratio / known.today[label]] if label in known.today else []
    yield f"{min(ratios):.2f}" if ratios else ""
    yield f"{case.percent_of_limit:.0f}"
    rate, streaming = task.least_bytes(case.case) / case.median_us, known.bytes_per_us.get(label)
    yield f"{100 * rate / streaming:.0f}" if streaming and large else ""
    yield f"{case.median_us - known.empty_us[label]:.2f}" if label in known.empty_us else ""


def _how(runs: Sequence[LiveRun]) -> Iterator[str]:
    """Yields how the runs went, plan by plan."""
    yield from ("", "## How the runs went", "")
    yield "Predicted ratios are over the plan's parent, candidates' ratios over the baseline."
    yield ""
    yield table_row("run", "round", "plan", "predicted", "candidates")
    yield table_row(*["---"] * 5)
    for run in runs:
        for one in run.summary.rounds:
            yield table_row(*_round(run, one))


def _round(run: LiveRun, one: RoundSummary) -> Iterator[str]:
    yield run.name
    yield f"{one.number}"
    yield one_line(one.title).replace("|", "\\|")
    yield f"{one.predicted_ratio:.2f}"
    yield "; ".join(map(_attempt, one.attempts)) or "none"


def _attempt(one: AttemptSummary) -> str:
    verdict = one.verdict or "not judged"
    return f"{verdict} {one.ratio:.2f}" if one.ratio is not None else verdict


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.task_pages")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--baselines", nargs="+", type=Path, metavar="FILE", required=True)
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", required=True)
    given = parser.parse_args()
    runs, evidence = load(given.runs), [read_evidence(path) for path in given.baselines]
    given.out.mkdir(parents=True, exist_ok=True)
    for name in sorted({*task_names(), *(run.summary.task for run in runs)}):
        write_whole(given.out / f"{name}.md", page(name, runs, evidence).encode())


if __name__ == "__main__":
    main()
