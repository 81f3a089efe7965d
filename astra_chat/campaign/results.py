"""What a campaign found, as tables: every run, and the arms of each task side by side.

Measured and estimated figures, and those of two devices, never stand in one row or mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from statistics import fmean

from astra_chat.campaign.index import Index, Totals
from astra_chat.campaign.rows import CampaignRow
from astra_chat.display.spending_view import time_words
from astra_chat.tools.types import Value
from astra_chat.tools.wording import counted

RUN_HEADINGS = (
    "task",
    "strategy",
    "model",
    "start",
    "repeat",
    "device",
    "outcome",
    "speed-up",
    "interval",
    "evaluations",
    "tokens",
    "dollars",
    "seconds",
)
ARM_HEADINGS = (
    "task",
    "start",
    "device",
    "strategy",
    "model",
    "runs",
    "evaluations each",
    "speed-up",
    "interval",
)

T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Quantiles 0.975 of Student's t with one to nine degrees of freedom."""
Z = 1.959964


class Arm(Value):
    """Runs that differ in their repeat alone, after as many evaluations as all arms beside it."""

    task: str
    start: str
    device: str
    """Name of the device, and whether its times are measured or estimated."""
    strategy: str
    model: str
    runs: int
    evaluations: int
    """Evaluations of each run that count, the baseline's included; what a run did after these does
    not count."""
    ratio: float
    """Geometric mean of the search's best, not confirmed; 1 where nothing was faster."""
    low: float | None = None
    """Lower end of the 95 % interval of `ratio` over the repeats; None for one run."""
    high: float | None = None
    """Upper end of the 95 % interval of `ratio` over the repeats; None for one run."""


def run_cells(row: CampaignRow) -> list[str]:
    """A run as the row of a table."""
    plan, best = row.plan, row.best
    speed, interval = "", ""
    if best is not None:
        speed = f"{best.ratio:.3f}x" + ("" if best.confirmed else ", unconfirmed")
        interval = f"{best.low:.3f} to {best.high:.3f}"
    elif row.basis is not None and row.state == "ended":
        speed = "none faster"
    usd = "unknown" if row.usd is None else f"{row.usd:.4f}"
    return [
        plan.task,
        plan.strategy,
        plan.model,
        plan.start,
        str(plan.repeat),
        where(row),
        (row.outcome or row.state).replace("_", " "),
        speed,
        interval,
        str(row.evaluations),
        f"{row.tokens:,}",
        usd,
        f"{row.seconds:.0f}",
    ]


def where(row: CampaignRow) -> str:
    """The device, and whether its times are measured or estimated."""
    return f"{row.device}, {row.basis}" if row.basis else row.device


def arms_of(rows: Iterable[CampaignRow]) -> list[Arm]:
    """The arms of each task, start and device, best first; only runs that have ended count."""
    usable = [row for row in rows if row.state == "ended" and row.search]
    found: list[Arm] = []
    for beside in _grouped(usable, lambda row: (row.plan.task, row.plan.start, where(row))):
        common = min(len(row.search) for row in beside)
        arms = [
            _arm(runs, common)
            for runs in _grouped(beside, lambda row: (row.plan.strategy, row.plan.model))
        ]
        found += sorted(arms, key=lambda arm: -arm.ratio)
    return found


def _grouped(
    rows: Sequence[CampaignRow], key: Callable[[CampaignRow], tuple[str, ...]]
) -> list[list[CampaignRow]]:
    return [list(group) for _, group in groupby(sorted(rows, key=key), key)]


def _arm(rows: Sequence[CampaignRow], evaluations: int) -> Arm:
    plan, logs = rows[0].plan, [math.log(row.search[evaluations - 1]) for row in rows]
    middle, low, high = fmean(logs), None, None
    if len(logs) > 1:
        variance = sum((one - middle) ** 2 for one in logs) / (len(logs) - 1)
        half = _student_t(len(logs) - 1) * math.sqrt(variance / len(logs))
        low, high = math.exp(middle - half), math.exp(middle + half)
    return Arm(
        task=plan.task,
        start=plan.start,
        device=where(rows[0]),
        strategy=plan.strategy,
        model=plan.model,
        runs=len(rows),
        evaluations=evaluations,
        ratio=math.exp(middle),
        low=low,
        high=high,
    )


def _student_t(freedom: int) -> float:
    """Returns quantile 0.975 of Student's t; from ten degrees of freedom on by its expansion."""
    return (
        T_975[freedom - 1]
        if freedom <= len(T_975)
        else Z + (Z**3 + Z) / (4 * freedom) + (5 * Z**5 + 16 * Z**3 + 3 * Z) / (96 * freedom**2)
    )


def arm_cells(arm: Arm) -> list[str]:
    """An arm as the row of a table."""
    interval = "" if arm.low is None else f"{arm.low:.3f} to {arm.high:.3f}"
    return [
        arm.task,
        arm.start,
        arm.device,
        arm.strategy,
        arm.model,
        str(arm.runs),
        str(arm.evaluations),
        f"{arm.ratio:.3f}x",
        interval,
    ]


def markdown(index: Index) -> str:
    """results.md: both tables and the totals."""
    parts = ["# Results", _table(RUN_HEADINGS, map(run_cells, index.runs))]
    if arms := arms_of(index.runs):
        parts += ["## Variants", ARMS_NOTE, _table(ARM_HEADINGS, map(arm_cells, arms))]
    return "\n\n".join([*parts, totals_text(index)]) + "\n"


ARMS_NOTE = (
    "Variants are compared by their best unconfirmed results, at the smallest number of"
    " evaluations in their group."
)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def totals_text(index: Index) -> str:
    """Returns the totals in one line."""
    totals = index.totals
    usd = "price unknown" if totals.usd is None else f"${totals.usd:.4f}"
    energy = "" if totals.energy_j is None else f" ({totals.energy_j:,.0f} J by NVML)"
    return (
        f"{totals.ended} of {counted(totals.runs, 'run')} ended;"
        f" {counted(totals.evaluations, 'evaluation')},"
        f" {totals.tokens:,} tokens, {usd}, {totals.gpu_s:.1f} s on a GPU{energy},"
        f" {totals.wall_s:.0f} s in all; the runs' time: {time_words(totals.time_use)}"
    ) + "".join(
        f"; {name} reserved for {p:.0%}{_busy(totals, name)}"
        for name, p in totals.gpu_share.items()
    )


def _busy(totals: Totals, name: str) -> str:
    busy = totals.gpu_busy.get(name)
    return (
        ", utilization unknown"
        if busy is None
        else f", busy {busy:.0%} of that time according to NVML"
    )
