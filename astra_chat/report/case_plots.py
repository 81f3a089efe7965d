"""Plots of the timed cases of one run: times, roofline; and errors by candidate.

Bars of measured times are filled, those of estimated ones are hatched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astra_chat.report.figures import (
    BAD,
    BASELINE,
    BEST,
    GOOD,
    HATCH,
    INK,
    PAPER,
    Drawing,
    Plot,
    words,
)
from astra_chat.tools.types import AnyTime, Basis
from astra_chat.transcript.summary import Timing
from astra_vgpu.ground.gpu_specs import GpuSpec

ROW_IN = 0.34
CASE_IN = 0.44
"""Height of a case: its name above its two bars."""
TOP, BELOW, BAR = -0.04, 0.26, 0.28
"""Places of the baseline's and the candidate's bar in a row, from its middle, and their height:
shares of the row's."""
MOST_CASES = 40
"""More are in the table only."""


def times_by_case(name: str, timing: Timing, named: bool) -> Drawing:
    """`named`: it is a candidate's; else the baseline's against itself."""
    cases = timing.cases[:MOST_CASES]
    plot = case_rows(f"{name}-cases", "Time by case, relative to the baseline", cases)
    for row, case in enumerate(cases):
        _bar(
            plot,
            row + TOP,
            100.0,
            BASELINE,
            timing.basis,
            "baseline",
            f"baseline {case.baseline_us:.2f} us",
        )
        share = 100 * case.median_us / case.baseline_us
        if named:
            _bar(
                plot,
                row + BELOW,
                share,
                BEST,
                timing.basis,
                "best candidate",
                f"best {case.median_us:.2f} us, {case.ratio:.2f}x",
            )
        plot.axes.plot(
            [100 * case.limit_us / case.baseline_us] * 2,
            [row - 0.2, row + 0.42],
            color=INK,
            linewidth=2,
            label="physical limit",
            gid=plot.hint(f"limit {case.limit_us:.2f} us"),
        )
        said = f"{case.baseline_us:.3g} us"
        said += f" → {case.median_us:.3g} us" if named else ""
        plot.text(said, max(100.0, share), row + 0.11, (4, -3))
    plot.axes.set_xlim(0, 1.35 * max(100.0, *(100 * c.median_us / c.baseline_us for c in cases)))
    plot.axes.set_xlabel("% of the baseline's time, L2 cold")
    plot.legend()
    caption = "Shorter is faster. No kernel can be faster than the physical limit."
    if len(timing.cases) > MOST_CASES:
        caption += f" The first {MOST_CASES} of {len(timing.cases)} cases."
    return plot.drawing(caption, timing.basis)


def roofline(
    name: str, timing: Timing, work: Sequence[tuple[float, float]], gpu: GpuSpec, named: bool
) -> Drawing | None:
    """`work`: for each case of `timing` its flops and the bytes that it must move. None where the
    task states no flops."""
    points = [
        (flops / size, flops, case)
        for (flops, size), case in zip(work, timing.cases, strict=True)
        if flops > 0 and size > 0
    ]
    if not points:
        return None
    plot = Plot(f"{name}-roofline", f"Roofline of {gpu.name}", 3.2)
    axes = plot.axes
    knee = gpu.fp32_flops / gpu.dram_bytes_per_s
    low = min(x for x, *_ in points) / 4
    high = max(4 * knee, 4 * max(x for x, *_ in points))
    at = [low, knee, high]
    roof = [min(gpu.fp32_flops, x * gpu.dram_bytes_per_s) / 1e9 for x in at]
    axes.plot(at, roof, color=INK, linewidth=1.4, label="memory bandwidth, then FP32 peak")
    for x, flops, case in points:
        reached = [flops / (us * 1e3) for us in (case.baseline_us, case.median_us)]
        _dot(
            plot,
            x,
            reached[0],
            BASELINE,
            timing.basis,
            "baseline",
            f"{case.case.named}, baseline: {reached[0]:,.0f} Gflop/s",
        )
        if named:
            _dot(
                plot,
                x,
                reached[1],
                BEST,
                timing.basis,
                "best candidate",
                f"{case.case.named}, best: {reached[1]:,.0f} Gflop/s",
            )
    for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        scale("log")
        axis.set_major_formatter("{x:g}")
    axes.set_xlabel("flops per byte that must be moved")
    axes.set_ylabel("Gflop/s")
    plot.legend(3)
    caption = (
        "Bytes are those that any kernel must move: each argument once. Small cases cannot"
        " reach the roof: starting a kernel takes longer than the work itself."
    )
    return plot.drawing(caption, timing.basis)


def errors(name: str, found: Sequence[tuple[str, str, float | None]]) -> Drawing | None:
    """`found`: candidate, verdict, and its largest error as a share of the tolerance; None for one
    that is wrong."""
    shown = list(found)[-MOST_CASES:]
    if not shown:
        return None
    plot = Plot(f"{name}-errors", "Largest error of each candidate", 0.9 + ROW_IN * len(shown), 1.1)
    axes = plot.axes
    for row, (candidate, verdict, worst) in enumerate(shown):
        if worst is None:
            axes.plot(
                100,
                row,
                "x",
                color=BAD,
                label="not correct",
                gid=plot.hint(f"{candidate}: {verdict}"),
            )
        else:
            hint = plot.hint(f"{candidate}: {100 * worst:.1f} % of the tolerance")
            axes.barh(row, 100 * worst, 0.6, color=GOOD, label="correct", gid=hint)
    axes.axvline(100, color=INK, linewidth=1.4, label="tolerance")
    axes.set_yticks(range(len(shown)), [words(candidate, 20) for candidate, *_ in shown])
    axes.invert_yaxis()
    axes.set_xlabel("% of the tolerance, over all elements of all cases")
    plot.legend()
    return plot.drawing(
        "Errors are relative to the float64 oracle; they are always computed, never estimated.",
        None,
    )


def case_rows(name: str, title: str, cases: Sequence[AnyTime]) -> Plot:
    """A plot with a row for each case, the first on top."""
    plot = Plot(name, title, 0.7 + CASE_IN * len(cases), 0.1)
    for row, case in enumerate(cases):
        plot.text(words(case.case.named, 72), 0, row - 0.24, (1, 1))
    plot.axes.set_yticks([])
    plot.axes.set_ylim(len(cases) - 0.4, -0.55)
    return plot


def _bar(
    plot: Plot, y: float, width: float, color: str, basis: Basis, label: str, hint: str
) -> None:
    plot.axes.barh(y, width, BAR, **look(color, basis), label=label, gid=plot.hint(hint))


def look(color: str, basis: Basis) -> dict[str, Any]:
    """How a bar is drawn: what is measured is filled, what is estimated hatched."""
    if basis == "measured":
        return {"facecolor": color}
    return {"facecolor": "none", "edgecolor": color, "hatch": HATCH[basis]}


def _dot(plot: Plot, x: float, y: float, color: str, basis: Basis, label: str, hint: str) -> None:
    filled = color if basis == "measured" else PAPER
    plot.axes.plot(
        x,
        y,
        "o",
        color=color,
        markerfacecolor=filled,
        markersize=6,
        label=label,
        gid=plot.hint(hint),
    )
