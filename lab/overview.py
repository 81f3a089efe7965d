"""One row a task of all live runs: the fastest winner from SGLang's kernel, by GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_chat.tools.timing.intervals import mean_interval
from astra_chat.tools.types import Timed
from lab.live_runs import LiveRun, fastest_run, gpus_of, short
from lab.result_tables import table_row

WORDS = (
    "The table shows, for each task, the fastest winner of a run that started from `sglang`,",
    "measured on an H200 if it was timed there. The interval is the 95 % confidence interval",
    "of the mean. *% of limit* is the physical limit (the bytes divided by the datasheet's",
    "bandwidth, or the time of a launch) divided by the measured time, for the call that",
    "moves the most bytes. The name of a task links to its page, which lists each case and",
    "how the kernel was found.",
)


def overview(runs: Sequence[LiveRun]) -> Iterator[str]:
    gpus = gpus_of(runs)
    tasks = sorted({run.summary.task for run in runs if run.measured})
    if not gpus:
        return
    yield from ("", "## Task by task", "", *WORDS, "")
    heads = [
        head for gpu in gpus for head in (f"{short(gpu)}: ratio", "slowest case", "% of limit")
    ]
    yield table_row("task", "by", "rounds, candidates", "evaluations, tokens", *heads)
    yield table_row(*["---"] * (4 + len(heads)))
    for task in tasks:
        found = [run for gpu in gpus if (run := fastest_run(runs, task, gpu))]
        if found:
            yield table_row(f"[{task}](results/{task}.md)", *_cells(found[0], gpus))


def _cells(run: LiveRun, gpus: Sequence[str]) -> Iterator[str]:
    rounds, spent = run.summary.rounds, run.summary.spent
    yield "one model" if run.arm[1] == "single" else "team"
    yield f"{len(rounds)}, {sum(len(one.attempts) for one in rounds)}"
    yield f"{spent.evaluations}, {spent.tokens.total:,}"
    for gpu in gpus:
        timed = run.timed_on(gpu)
        yield from _measured(timed) if timed else ("", "", "")


def _measured(timed: Timed) -> tuple[str, str, str]:
    low, high = mean_interval(timed.cases)
    least = min(case.ratio for case in timed.cases)
    largest = max(timed.cases, key=lambda case: case.limit_us)
    return (
        f"{timed.ratio:.2f} ({low:.2f} to {high:.2f})",
        f"{least:.2f}",
        f"{largest.percent_of_limit:.0f}",
    )
