"""Plots of one run over its rounds: speed, and predictions beside results.

Filled marks and solid lines are measured, hollow marks and dashed lines are estimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_chat.report.figures import (
    BAD,
    BASELINE,
    BEST,
    GOOD,
    LINE,
    MUTED,
    PAPER,
    TIE,
    Drawing,
    Plot,
)
from astra_chat.tools.types import Basis
from astra_chat.transcript.summary import AttemptSummary, RunSummary, Speed

VERDICTS = {
    "accepted": ("faster", GOOD, "o"),
    "tie": ("tie", TIE, "D"),
    "slower": ("slower", BAD, "v"),
}
"""Name, colour and marker of a timed candidate."""
FAILED = "not correct, or does not build"
CONFIRMED = "on fresh seeds"
_Mark = tuple[float, Speed, str]
"""Place on the axis of the rounds, result, and what it says where the mouse is over it."""


def with_interval(speed: Speed) -> str:
    """ "1.90x (1.71 to 2.09)"."""
    return f"{speed.ratio:.2f}x ({speed.low:.2f} to {speed.high:.2f})"


def speed_by_round(name: str, summary: RunSummary, basis: Basis) -> Drawing | None:
    """None for a run without a round."""
    rounds = len(summary.rounds)
    if not rounds:
        return None
    plot = Plot(f"{name}-rounds", "Speed over the baseline, by round", 3.0)
    axes = plot.axes
    axes.axhline(1.0, color=BASELINE, linewidth=1, label="baseline")
    at, ratios = _steps(summary)
    axes.step(at, ratios, where="post", color=BEST, linestyle=LINE[basis], label="best so far")
    marks: dict[str, list[_Mark]] = {}
    for number, place, attempt in _attempts(summary):
        said = f"round {number}, {attempt.candidate}: "
        if attempt.speed and attempt.verdict in VERDICTS:
            said += f"{VERDICTS[attempt.verdict][0]} {with_interval(attempt.speed)}"
            marks.setdefault(attempt.verdict, []).append((place, attempt.speed, said))
        elif attempt.failed:
            axes.plot(
                place,
                0.03,
                "x",
                color=BAD,
                transform=axes.get_xaxis_transform(),
                label=FAILED,
                gid=plot.hint(f"{said}{attempt.verdict}"),
            )
    for verdict, found in marks.items():
        label, color, marker = VERDICTS[verdict]
        _draw(plot, found, (color, marker, 7), basis, label)
    if (best := summary.best) is not None and best.confirmed:
        said = f"{CONFIRMED}, {best.candidate}: {with_interval(best)}"
        _draw(plot, [(rounds + 0.5, best, said)], (BEST, "*", 12), basis, CONFIRMED)
    axes.set_xlim(0, rounds + 0.8)
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("round; 0 is the baseline")
    axes.yaxis.set_major_formatter("{x:g}x")
    plot.legend()
    caption = (
        "Each mark is one candidate, with its interval over all cases. A tie lies within"
        " the resolution of the result: it is not a gain."
    )
    return plot.drawing(caption, basis)


def predictions(name: str, summary: RunSummary, basis: Basis) -> Drawing | None:
    """None where no plan led to a correct kernel."""
    found = [
        (one.predicted_ratio, one.prediction.actual_ratio, one)
        for one in summary.rounds
        if one.prediction is not None and one.prediction.actual_ratio is not None
    ]
    if not found:
        return None
    plot = Plot(f"{name}-predictions", "Predicted and actual speedup over the plan's parent", 3.0)
    axes = plot.axes
    every = [1.0, *(x for x, *_ in found), *(y for _, y, _ in found)]
    ends = [min(every) * 0.9, max(every) * 1.1]
    axes.plot(ends, ends, color=BASELINE, linewidth=1, label="as predicted")
    for predicted, actual, one in found:
        hint = f"round {one.number}, {one.title}: predicted {predicted:.2f}x, actual {actual:.2f}x"
        axes.plot(
            predicted,
            actual,
            "o",
            color=BEST,
            markersize=7,
            label=f"a plan, {basis}",
            markerfacecolor=BEST if basis == "measured" else PAPER,
            gid=plot.hint(hint),
        )
        plot.text(str(one.number), predicted, actual, (6, 3))
    axes.axhline(1.0, color=MUTED, linewidth=0.6)
    axes.set_xlabel("predicted")
    axes.set_ylabel("found")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}x")
    plot.legend()
    caption = (
        "Numbers are rounds. Above the line, a plan gained more than it predicted."
        f" {summary.predictions.text}."
    )
    return plot.drawing(caption, basis)


def _draw(
    plot: Plot, marks: Sequence[_Mark], look: tuple[str, str, int], basis: Basis, label: str
) -> None:
    color, marker, size = look
    at, speeds = [x for x, *_ in marks], [speed for _, speed, _ in marks]
    ratios = [speed.ratio for speed in speeds]
    ends = [
        [max(0.0, speed.ratio - speed.low) for speed in speeds],
        [max(0.0, speed.high - speed.ratio) for speed in speeds],
    ]
    plot.axes.errorbar(
        at,
        ratios,
        ends,
        color=color,
        marker=marker,
        markersize=size,
        linewidth=1.1,
        capsize=2.5,
        linestyle="none",
        label=label,
        markerfacecolor=color if basis == "measured" else PAPER,
    )
    for x, speed, hint in marks:
        # An error bar has several parts: this is what the mouse points at.
        if (gid := plot.hint(hint)) is not None:
            plot.axes.plot(x, speed.ratio, "o", markersize=size + 3, alpha=0, gid=gid)


def _attempts(summary: RunSummary) -> Iterator[tuple[int, float, AttemptSummary]]:
    """Round, place beside the others of the round, candidate."""
    for one in summary.rounds:
        for index, attempt in enumerate(one.attempts):
            aside = (index + 0.5) / len(one.attempts) - 0.5
            yield one.number, one.number + 0.5 * aside, attempt


def _steps(summary: RunSummary) -> tuple[list[float], list[float]]:
    """The baseline up to the first gain, then a step at each."""
    at, ratios = [0.0], [1.0]
    for one in summary.rounds:
        if one.best is not None:
            at.append(float(one.number))
            ratios.append(one.best.ratio)
    return [*at, float(len(summary.rounds))], [*ratios, ratios[-1]]
