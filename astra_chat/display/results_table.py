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
    title = Text(f"{where(timed.basis, header)}, L2 cold, baseline {header.options.tier}", "bold")
    rows = Table(box=None, pad_edge=False)
    rows.add_column("case")
    for column in _columns(name, timed.basis):
        rows.add_column(column, justify="right")
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


def _columns(name: str, basis: Basis) -> list[str]:
    if not name:
        return ["baseline us", "% of limit", "basis"]
    return ["baseline us", f"{name} us", "ratio", "interval", "% of limit", "basis"]


def _row(case: AnyTime, with_candidate: bool) -> list[str]:
    percent = f"{case.percent_of_limit:.0f}"
    if not with_candidate:
        return [_us(case.baseline_us), percent, case.basis]
    interval = f"{case.ratio_low:.2f} to {case.ratio_high:.2f}"
    return [
        _us(case.baseline_us),
        _us(case.median_us),
        f"{case.ratio:.2f}x",
        interval,
        percent,
        case.basis,
    ]


def _us(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"
