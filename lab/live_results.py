"""docs/results.md: what live models found, from the transcripts of their runs alone:
`python -m lab.live_results FILE... [--paper-method FILE...] [--baselines FILE...]
> docs/results.md`.

FILE is what live_runs takes: transcripts, and what GPUs say of their winners; with --paper-method
what lab.paper_method printed of them, with --baselines what over_today takes.

Its first table has one row a task: the fastest winner from SGLang's kernel, by GPU. Others have the
runs beside the figures of the Astra paper (arXiv 2509.07506).
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.timing.intervals import mean_interval
from astra_chat.tools.types import Timed
from astra_chat.transcript.events import EndReason
from astra_chat.transcript.summary import RunSummary
from lab.baselines.evidence import Evidence
from lab.baselines.evidence import read as read_evidence
from lab.commands import one_line_errors
from lab.live_runs import LiveRun, fastest_run, gpus_of, load, short
from lab.over_today import summary
from lab.paper_method import PaperMethod, read
from lab.result_tables import geomean, table_row
from lab.winners import fastest, verdict_of

COMMAND = "python -m lab.live_results"
AIMS = {
    "rmsnorm": 1.2,
    "gelu_tanh_and_mul": 1.3,
    "rotary_embedding": 2.0,
    "qk_rmsnorm_rope": 1.6,
    "rope_and_kv_write": 1.6,
    "per_token_quant_fp8": 1.25,
    "per_token_group_quant_fp8": 1.3,
    "silu_and_mul_group_quant_fp8": 1.6,
    "fused_add_rmsnorm_quant_fp8": 1.5,
    "topk_softmax": 1.5,
    "moe_align_block_size": 2.0,
    "moe_sum_reduce": 1.7,
}
"""What we set out to reach over `sglang`, on an H200."""
OPENING = (
    "# Results",
    "",
    "This page lists the kernels that language models found by answering Astra's prompts through",
    "a mailbox. In addition to the prompts, the models were given a short brief:",
    "[research/live-runs.md](research/live-runs.md) contains it and describes what misled them.",
    "Each figure is the speedup of a run's winner over the kernel that the run started from, as a",
    "weighted geometric mean; for several runs, the median and the range are given. The page is",
    f"written by `{COMMAND}` from the transcripts.",
    "[judge.md](judge.md) explains the terms.",
)
EACH = (
    "Each run is named after its transcript in transcripts/recorded.tar.xz, without .jsonl. Tokens",
    "are estimated at four characters each, including prompts. Ratios by round are those of the",
    "best candidate so far, before its confirmation. Intervals of estimates are 90 % prediction",
    "intervals; intervals of measurements are 95 % confidence intervals.",
)
ENDS: dict[EndReason, str] = {
    "profiler": "the profiler",
    "no_plan": "the planner",
    "rounds": "its last round",
    "budget": "its budget",
    "evaluations": "its budget",
    "no_gain": "rounds without a gain",
    "near_limit": "the physical limit",
}
"""Reasons of the last line of a transcript, as who or what ended the run."""


def document(
    runs: Sequence[LiveRun],
    methods: Sequence[PaperMethod] = (),
    evidence: Sequence[Evidence] = (),
) -> str:
    by_events = chain.from_iterable(by_its_method(runs, method) for method in methods)
    tables = (*summary(runs, evidence), *_tables(runs), *by_events, *overview(runs))
    return "\n".join([*_opening(runs), *tables, *_each(runs)])


def _opening(runs: Sequence[LiveRun]) -> Iterator[str]:
    yield from OPENING
    yield ""
    yield f"There are {len(runs)} runs. Figures measured on a GPU cover all timed cases. Winners"
    yield "of estimated runs were judged on the GPU later; `confirmed` means that they were also"
    yield "judged on fresh inputs and with the sanitizers. The paper's figures (arXiv 2509.07506)"
    yield "are speedups over its own baseline, with its own timing, on an H100. Next to them are"
    yield "our runs that started from that baseline (`paper`) and from SGLang's 2025"
    yield "kernel (`sglang`)."


def _tables(runs: Sequence[LiveRun]) -> Iterator[str]:
    """What GPUs say of the winners, then what was estimated while they were sought."""
    by_gpu = {gpu: [one for one in runs if one.timed_on(gpu)] for gpu in gpus_of(runs)}
    for gpu, some in sorted(by_gpu.items(), key=lambda one: not _papers(one[1])):
        ratios = {run.path: ratio for run in some if (ratio := run.ratio_on(gpu))}
        least = {run.path: found for run in some if (found := run.least_on(gpu))}
        yield from _table(f"Measured on {gpu}", some, ratios, least)
    if virtual := [run for run in runs if run.summary.device.kind == "virtual"]:
        specs = " and ".join(sorted({run.summary.device.spec.upper() for run in virtual}))
        ratios = {run.path: run.ratio for run in virtual}
        yield from _table(f"Estimated for {specs} by the virtual GPU", virtual, ratios, {})


def _table(
    title: str, runs: Sequence[LiveRun], ratios: Mapping[Path, float], least: Mapping[Path, float]
) -> Iterator[str]:
    """`least`: the lowest ratio of a case, where a GPU says it."""
    yield from ("", f"## {title}", "")
    papers = _papers(runs)
    further = [run for run in runs if run.summary.task not in PAPER]
    if papers:
        yield from beside_the_paper(papers, ratios)
    if papers and further:
        yield ""
    if further:
        yield from _beside_the_aims(further, ratios, least)
    yield from _over_all(runs, ratios)


def _over_all(runs: Sequence[LiveRun], ratios: Mapping[Path, float]) -> Iterator[str]:
    """One figure for SGLang's kernels: the median of each task's teams, then the mean of tasks; and
    one that takes the arm with the higher median, where a task has both."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if run.arm[0] == "sglang":
            found[run.summary.task][run.arm[1]].append(ratios[run.path])
    by_task = [
        {arm: statistics.median(some) for arm, some in arms.items()}
        for arms in found.values()
        if "team" in arms
    ]
    if len(by_task) > 1:
        teams = statistics.geometric_mean(arms["team"] for arms in by_task)
        best = statistics.geometric_mean(max(arms.values()) for arms in by_task)
        yield ""
        yield (
            f"Geometric mean of teams that started from `sglang` over these {len(by_task)} tasks: "
            f"**{teams:.2f}**; with the better of team and single for each task: {best:.2f}."
        )


def _beside_the_aims(
    runs: Sequence[LiveRun], ratios: Mapping[Path, float], least: Mapping[Path, float]
) -> Iterator[str]:
    """A row a task, each arm by the median of its runs."""
    arms = [arm for arm in ("team", "single") if any(run.arm[1] == arm for run in runs)]
    last = [f"slowest case, {arm}" for arm in arms] if least else []
    heads = [f"from `sglang`, {arm}" for arm in arms]
    yield table_row("task", "target on an H200", *heads, *last)
    yield table_row(*["---"] * (2 + len(heads) + len(last)))
    for task in sorted({run.summary.task for run in runs}):
        some = [run for run in runs if run.summary.task == task]
        by_arm = [[run.path for run in some if run.arm[1] == arm] for arm in arms]
        cells = [middle_and_range([ratios[path] for path in paths]) for paths in by_arm]
        if least:
            cells += [
                f"{min(least[path] for path in paths):.2f}" if paths else "" for paths in by_arm
            ]
        yield table_row(task, f"{AIMS.get(task) or ''}", *cells)


def _papers(runs: Sequence[LiveRun]) -> list[LiveRun]:
    return [run for run in runs if run.summary.task in PAPER]


def _each(runs: Sequence[LiveRun]) -> Iterator[str]:
    yield ""
    yield "## Each run"
    yield ""
    yield from EACH
    yield ""
    yield table_row(
        "run",
        "baseline",
        "rounds",
        "candidates, correct",
        "answers, sent back",
        "evaluations",
        "tokens",
        "minutes",
        "ratio by round",
        "winner",
        "the same on a GPU",
        "ended by",
    )
    yield table_row(*["---"] * 12)
    for task in tasks_of(runs):
        for run in runs:
            if run.summary.task == task:
                yield table_row(*_cells(run))


def _cells(run: LiveRun) -> Iterator[str]:
    summary = run.summary
    attempts = [attempt for one in summary.rounds for attempt in one.attempts]
    right = sum(not attempt.failed for attempt in attempts)
    yield f"{summary.task}, {run.arm[1]}: {run.place}"
    yield f"`{run.arm[0]}`"
    yield str(len(summary.rounds))
    yield f"{len(attempts)}, {right}"
    yield f"{run.answers}, {run.refused}"
    yield str(summary.spent.evaluations)
    yield f"{summary.spent.tokens.total:,}"
    yield f"{summary.seconds / 60:.0f}"
    yield ", ".join(f"{one.best.ratio:.2f}" if one.best else "-" for one in summary.rounds)
    yield _winner(summary)
    yield _on_gpus(run)
    yield ENDS.get(summary.ended.reason, summary.ended.reason) if summary.ended else ""


def _winner(summary: RunSummary) -> str:
    best = summary.best
    if best is None:
        found = fastest(summary)
        tie = f", a tie at {found.ratio:.2f} ({found.low:.2f} to {found.high:.2f})" if found else ""
        return f"none{tie}"
    word = "" if best.confirmed else ", not confirmed"
    return f"{best.basis} {best.ratio:.2f} ({best.low:.2f} to {best.high:.2f}){word}"


def _on_gpus(run: LiveRun) -> str:
    """What GPUs say of a winner that was estimated."""
    if run.summary.device.kind == "cuda":
        return ""
    return "; ".join(_on_gpu(found) for _, found in sorted(run.measured.items()))


def _on_gpu(found: Evaluation) -> str:
    outcome, name = found.outcome, short(found.device.name)
    if not isinstance(outcome, Timed):
        return f"**{outcome.kind}** on {name}"
    least = min(case.ratio for case in outcome.cases)
    return f"{verdict_of(found)}: {outcome.ratio:.3f} on {name}, slowest case {least:.3f}"


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--paper-method", nargs="+", type=Path, metavar="FILE", default=[])
    parser.add_argument("--baselines", nargs="+", type=Path, metavar="FILE", default=[])
    given = parser.parse_args()
    methods = [read(path) for path in given.paper_method]
    evidence = [read_evidence(path) for path in given.baselines]
    print(document(load(given.files), methods, evidence))


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
            yield table_row(f"[{task}](results/{task}.md)", *_overview_cells(found[0], gpus))


def _overview_cells(run: LiveRun, gpus: Sequence[str]) -> Iterator[str]:
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


if __name__ == "__main__":
    main()
