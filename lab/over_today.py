"""Live winners over what SGLang and FlashInfer launch today:
`python -m lab.over_today RUN... --baselines FILE... > docs/research/over-today.md`.

RUN is what live_runs takes, FILE a file of research.baselines. Neither times a winner beside
today's kernels: each is timed beside our `sglang` baseline on the same kind of GPU, and the ratio
of a case is the quotient of both. Of today's kernels the fastest of each case counts, also where
its results miss the task's contract. Comparisons with an earlier version of our baseline are left
out, and cases that none of today's kernels takes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_chat.tools.task.folder import find_task
from astra_chat.tools.timing.comparison import BETWEEN_EVALUATIONS
from astra_chat.tools.types import candidate_id
from lab.baselines.evidence import Comparison, Evidence
from lab.baselines.evidence import read as read_evidence
from lab.commands import one_line_errors
from lab.live_runs import LiveRun, fastest_run, load
from lab.result_tables import geomean, table_row

TODAY = "today"
OPENING = f"""# Live winners over today's kernels

Written by `python -m lab.over_today`. *over today*: the weighted geometric mean of
the winner over the fastest of today's kernels (SGLang 0.5.23, FlashInfer 0.7.2) on each case.
Winner and today's kernel were timed in two runs, each beside our `sglang` baseline, on GPUs of one
kind; a figure is the quotient of two ratios, and differs by {BETWEEN_EVALUATIONS:.1%} from run to
run by root mean square. The table has the fastest winner of a task's runs from `sglang`. Which of
today's kernels there are, and what they miss: [baselines.md](baselines.md)."""


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


def document(runs: Sequence[LiveRun], evidence: Sequence[Evidence]) -> str:
    return "\n".join([OPENING, *_tables(runs, evidence)])


def _tables(runs: Sequence[LiveRun], evidence: Sequence[Evidence]) -> Iterator[str]:
    for gpu in sorted({gpu for run in runs for gpu in run.measured}):
        found = over_today(runs, evidence, gpu)
        if not found:
            continue
        yield from ("", f"## On {gpu}", "")
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
        yield (
            f"Geometric mean over these {len(found)} tasks: "
            f"**{geomean([one.mean for one in found]):.2f}**; below 1: {below}."
        )


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.over_today")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--baselines", nargs="+", type=Path, metavar="FILE", required=True)
    given = parser.parse_args()
    print(document(load(given.runs), [read_evidence(path) for path in given.baselines]))


if __name__ == "__main__":
    main()
