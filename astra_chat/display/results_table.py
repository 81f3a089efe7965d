"""The table at the end of a run: every timed case, baseline beside best candidate."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from astra_chat.display.evaluation_view import memory_lines
from astra_chat.display.tables import FigureTable
from astra_chat.tools.task.tiers import baseline_name
from astra_chat.tools.types import AnyTime, Basis, Device
from astra_chat.transcript.summary import RunSummary
from astra_vgpu.ground.gpu_specs import spec


def table(summary: RunSummary) -> list[RenderableType]:
    """Title and rows; nothing where nothing was timed."""
    timed = summary.best or summary.baseline
    if timed is None:
        return []
    name = summary.best.candidate if summary.best else ""
    baseline = baseline_name(summary.task, summary.options.tier)
    said = f"{where(timed.basis, summary.device)}, L2 cold, over {baseline}"
    title = Text(f"{said}, best {name}" if name else said, "bold")
    rows = FigureTable(box=None, pad_edge=False)
    rows.add_column("case", overflow="fold")
    for column in _columns(bool(name)):
        rows.add_column(column, justify="right", no_wrap=True)
    for case in timed.cases:
        rows.add_row(case.case.label, *_row(case, bool(name)))
    if not name:
        return [title, rows]
    total = f"all cases, weighted: {timed.basis} {timed.ratio:.2f}x the baseline's speed"
    if timed.confirmed:
        total += ", confirmed on fresh seeds"
    memory = map(Text, memory_lines(timed.cases))
    return [title, rows, *memory, Text(total, "bold green")]


def where(basis: Basis, device: Device) -> str:
    """ "estimated for NVIDIA H200" or "measured on NVIDIA H200"."""
    if basis == "estimated":
        return f"estimated for {spec(device.spec).name}"
    return f"measured on {device.name}"


def _columns(named: bool) -> list[str]:
    """Their headings: so the table fits into 80 columns."""
    if not named:
        return ["baseline\nus", "basis", "% of\nlimit"]
    return ["baseline\nus", "best\nus", "ratio", "interval", "basis", "% of\nlimit"]


def _row(case: AnyTime, with_candidate: bool) -> list[str]:
    percent = f"{case.percent_of_limit:.0f}"
    if not with_candidate:
        return [_us(case.baseline_us), case.basis, percent]
    interval = f"{case.ratio_low:.2f} to {case.ratio_high:.2f}"
    return [
        _us(case.baseline_us),
        _us(case.median_us),
        f"{case.ratio:.2f}x",
        interval,
        case.basis,
        percent,
    ]


def _us(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"
