"""The table at the end of a run: every timed case, baseline beside best candidate."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from astra_chat.agents.run_state import RunState
from astra_chat.tools.gpu_specs import spec
from astra_chat.tools.types import AnyTime, Basis, Timed
from astra_chat.transcript.events import Header


def table(header: Header, state: RunState) -> list[RenderableType]:
    """Title and rows; nothing where nothing was timed."""
    first, found = state.baseline, state.best
    if found is not None:
        evaluation, timed = found
        name = evaluation.candidate
    elif first is not None and isinstance(first.outcome, Timed):
        name, timed = "", first.outcome
    else:
        return []
    said = f"{where(timed.basis, header)}, L2 cold, baseline {header.options.tier}"
    title = Text(f"{said}, best candidate {name}" if name else said, "bold")
    rows = Table(box=None, pad_edge=False)
    rows.add_column("case", overflow="fold")
    for column in _columns(bool(name)):
        rows.add_column(column, justify="right", no_wrap=True)
    for case in timed.cases:
        rows.add_row(case.case.label, *_row(case, bool(name)))
    if not name:
        return [title, rows]
    total = f"all cases, weighted: {timed.basis} {timed.ratio:.2f}x the baseline's speed"
    if evaluation.confirms:
        total += ", confirmed on fresh seeds"
    return [title, rows, Text(total, "bold green")]


def where(basis: Basis, header: Header) -> str:
    """ "estimated for NVIDIA H200" or "measured on NVIDIA H200"."""
    if basis == "estimated":
        return f"estimated for {spec(header.device.spec).name}"
    return f"measured on {header.device.name}"


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
