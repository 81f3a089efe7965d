"""Several runs side by side, grouped by task: what differs between them, and their plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from astra_chat.report.case_plots import ROW_IN
from astra_chat.report.figures import BASELINE, LINE, PAPER, SERIES, Drawing, Plot, words
from astra_chat.report.round_plots import with_interval
from astra_chat.report.run_page import RunPage
from astra_chat.tools.types import Basis
from astra_chat.tools.wording import counted

MARKERS = "osDv^<>P"
MOST_LINES = 16
"""Runs in one plot; more could not be told apart."""


CHARACTER_IN = 0.056
"""Width of one in a label."""


@dataclass(frozen=True)
class Group:
    """The runs about one task."""

    id: str
    task: str
    runs: list[RunPage]
    drawings: list[Drawing]

    @property
    def differs(self) -> list[str]:
        """What is not the same in all of them: strategy, models, device or start."""
        kinds: dict[str, set[str]] = {
            "strategy": {str(run.summary.options.strategy) for run in self.runs},
            "models": {run.summary.options.models for run in self.runs},
            "device": {run.where for run in self.runs},
            "start": {run.summary.options.tier for run in self.runs},
            "task's files": {run.summary.task_id for run in self.runs},
        }
        return [name for name, values in kinds.items() if len(values) > 1]


def groups_of(runs: Sequence[RunPage]) -> list[Group]:
    """In the order of their first runs."""
    tasks: dict[str, list[RunPage]] = {}
    for run in runs:
        tasks.setdefault(run.summary.task, []).append(run)
    return [
        Group(f"task{number}", task, own, _drawings(f"task{number}", own))
        for number, (task, own) in enumerate(tasks.items(), 1)
    ]


def label_of(run: RunPage) -> str:
    """Names a run in a plot."""
    options = run.summary.options
    number = run.id.removeprefix("run")
    return f"{number}: {options.strategy}, {options.models}, {run.start}, {run.basis}"


def _drawings(name: str, runs: Sequence[RunPage]) -> list[Drawing]:
    if len(runs) < 2:
        return []
    return [one for one in (_best(name, runs), _by_round(name, runs)) if one is not None]


def _best(name: str, runs: Sequence[RunPage]) -> Drawing:
    """The result of every run."""
    labels = [words(label_of(run), 36) for run in runs]
    left_in = 0.2 + CHARACTER_IN * max(map(len, labels))
    plot = Plot(
        f"{name}-best", "Best of each run, over its baseline", 0.9 + ROW_IN * len(runs), left_in
    )
    axes = plot.axes
    axes.axvline(1.0, color=BASELINE, linewidth=1, label="baseline")
    for row, run in enumerate(runs):
        best, color = run.summary.best, SERIES[row % len(SERIES)]
        if best is None:
            axes.plot(
                1.0,
                row,
                "x",
                color=color,
                label="nothing faster",
                gid=plot.hint(f"{label_of(run)}: nothing faster"),
            )
            continue
        ends = [[max(0.0, best.ratio - best.low)], [max(0.0, best.high - best.ratio)]]
        axes.errorbar(
            best.ratio,
            row,
            xerr=ends,
            color=color,
            marker="o",
            markersize=7,
            capsize=3,
            linestyle="none",
            markerfacecolor=color if run.basis == "measured" else PAPER,
        )
        hint = plot.hint(f"{label_of(run)}, {run.where}: {with_interval(best)}")
        axes.plot(best.ratio, row, "o", markersize=10, alpha=0, gid=hint)
    axes.set_yticks(range(len(runs)), labels)
    axes.set_ylim(len(runs) - 0.4, -0.6)
    axes.xaxis.set_major_formatter("{x:g}x")
    plot.legend()
    return plot.drawing("Filled marks are measured; hollow ones are estimated.", _basis(runs))


def _by_round(name: str, runs: Sequence[RunPage]) -> Drawing | None:
    """How fast each run got there."""
    shown = [run for run in runs if run.summary.rounds][:MOST_LINES]
    if not shown:
        return None
    plot = Plot(f"{name}-rounds", "Best so far, by round", 2.9 + 0.18 * len(shown))
    plot.axes.axhline(1.0, color=BASELINE, linewidth=1)
    for index, run in enumerate(shown):
        rounds = run.summary.rounds
        ratios = [1.0]
        for one in rounds:
            ratios.append(one.best.ratio if one.best else ratios[-1])
        color = SERIES[index % len(SERIES)]
        plot.axes.step(
            range(len(ratios)),
            ratios,
            where="post",
            color=color,
            linestyle=LINE[run.basis],
            marker=MARKERS[index % len(MARKERS)],
            markersize=5,
            label=words(label_of(run), 36),
            markerfacecolor=color if run.basis == "measured" else PAPER,
            gid=plot.hint(f"{label_of(run)}, {run.where}"),
        )
    plot.axes.locator_params(axis="x", integer=True)
    plot.axes.set_xlabel("round; 0 is the baseline")
    plot.axes.yaxis.set_major_formatter("{x:g}x")
    plot.legend(1)
    caption = (
        "From the evaluations of the search. Solid lines are measured; dashed ones are estimated."
    )
    if len(runs) > len(shown):
        caption += f" {len(shown)} of {counted(len(runs), 'run')}."
    return plot.drawing(caption, _basis(runs))


def _basis(runs: Sequence[RunPage]) -> Basis | None:
    """None where there are both kinds."""
    kinds = {run.basis for run in runs}
    return kinds.pop() if len(kinds) == 1 else None
