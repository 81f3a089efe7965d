"""Evaluations and profiles as rich renderables; the same words live, in replay and alone.

Kernel text, compiler output and names are data: they go through rich.text.Text, never markup.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from astra_chat.tools.types import (
    BuildFailed,
    CaseTime,
    Correct,
    Crashed,
    Evaluation,
    MeasuredTime,
    Outcome,
    Profile,
    Refused,
    Timed,
    TimedOut,
    Unsafe,
    Unsupported,
    Wrong,
)

VERDICT_STYLE = {"accepted": "bold green", "tie": "yellow", "slower": "red"}


def evaluation_text(evaluation: Evaluation) -> RenderableType:
    """Everything about an evaluation: outcome, table of cases, steps."""
    parts: list[RenderableType] = [
        outcome_text(evaluation.outcome),
        Text(f"candidate {evaluation.candidate} on {evaluation.device.name}", style="dim"),
    ]
    if isinstance(evaluation.outcome, Timed):
        parts += [case_table(evaluation), profile_line(evaluation.outcome.profile)]
    steps = "  ".join(
        f"{s.name} {s.seconds:.1f} s{f' ({s.note})' if s.note else ''}" for s in evaluation.steps
    )
    return Group(*parts, Text(steps, style="dim"))


def outcome_text(outcome: Outcome) -> Text:
    """The verdict in one or two lines; a build log or findings below it."""
    match outcome:
        case Refused(gate=gate, findings=findings):
            lines = "\n".join(f"  line {f.line}: {f.what}" for f in findings)
            return _bad(f"refused by the {gate}", lines)
        case BuildFailed(log=log):
            return _bad("build failed", log)
        case Unsupported():
            where = f"kernel {outcome.kernel}, PTX line {outcome.line}"
            detail = f"  {outcome.what} ({outcome.opcode}; {where})\n"
            return _bad("unsupported by the virtual GPU", f"{detail}  this says nothing against it")
        case Wrong():
            return _wrong(outcome)
        case Unsafe(case=case, what=what, where=where):
            return _bad(f"unsafe on {case.label}", f"  {what}\n  {where}")
        case Crashed(case=case, message=message):
            return _bad(f"crashed on {case.label}", f"  {message}")
        case TimedOut(step=step, limit_s=limit_s):
            return _bad(f"timed out: {step} took longer than {limit_s:.0f} s", "")
        case Correct():
            return correct_text(outcome)
        case Timed():
            return _timed(outcome)


def correct_text(correct: Correct) -> Text:
    text = Text("correct", style="bold green")
    text.append(
        f" on {correct.cases} cases; worst error {correct.worst:.0%} of what is allowed", style=""
    )
    for note in correct.sampled:
        text.append(f"\n  sampled: {note}", style="dim")
    return text


def case_table(evaluation: Evaluation) -> Table:
    """Per case: baseline, candidate, ratio with its interval, share of the physical limit."""
    timed = evaluation.outcome
    assert isinstance(timed, Timed)
    measured = timed.basis == "measured"
    how = (
        f"measured on {evaluation.device.name}, L2 cold"
        if measured
        else f"estimated ({evaluation.device.name}), L2 cold"
    )
    table = Table(title=Text(how), title_justify="left", pad_edge=False, box=None)
    table.add_column("case", no_wrap=True)
    word = "" if measured else "estimated "
    for name in (f"{word}baseline us", f"{word}candidate us", "ratio", "interval", "% of limit"):
        table.add_column(name, justify="right")
    if measured:
        table.add_column("event us (base, cand.)", justify="right")
    else:
        table.add_column("limiter")
    for case in timed.cases:
        table.add_row(*_case_cells(case))
    notes = sorted({c.note for c in timed.cases if isinstance(c, MeasuredTime) and c.note})
    if notes:
        table.caption = Text(f"* {notes[0]}", style="dim")
        table.caption_justify = "left"
    return table


def profile_text(profile: Profile) -> RenderableType:
    """A profile alone: every metric with its words."""
    title = Text(f"{profile.basis} profile of {profile.case.label}")
    table = Table(title=title, title_justify="left", pad_edge=False, box=None)
    for name in ("metric", "value", "", "what it says"):
        table.add_column(name, justify="right" if name == "value" else "left")
    for metric in profile.metrics:
        value = figure(metric.value)
        table.add_row(Text(metric.name), value, Text(metric.unit), Text(metric.words))
    return Group(table, profile_line(profile))


def profile_line(profile: Profile) -> Text:
    text = Text(f"bottleneck ({profile.basis}): ", style="bold")
    text.append(f"{profile.bottleneck} — {profile.why}", style="")
    limit = f"; physical limit {profile.limit_us:.2f} us, reached {profile.percent_of_limit:.0f} %"
    return text.append(limit)


def figure(value: float) -> str:
    """A number of any size with few digits."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _case_cells(case: CaseTime) -> list[str | Text]:
    digits = 3 if isinstance(case, MeasuredTime) else 2
    cells: list[str | Text] = [
        Text(case.case.label),
        f"{case.baseline_us:.2f}",
        f"{case.median_us:.2f}",
        f"{case.ratio:.2f}x",
        f"{case.ratio_low:.{digits}f} to {case.ratio_high:.{digits}f}",
        f"{case.percent_of_limit:.0f}",
    ]
    if isinstance(case, MeasuredTime):
        if case.note:
            cells[0] = Text(f"{case.case.label} *")
        cells.append(f"{case.baseline_event_us:.2f}, {case.event_us:.2f}")
    else:
        limiter = getattr(case, "limiter", "")
        note = getattr(case, "note", "")
        cells.append(Text(f"{limiter}; {note}" if note else limiter))
    return cells


def _timed(timed: Timed) -> Text:
    text = Text(timed.verdict, style=VERDICT_STYLE[timed.verdict])
    text.append(f": {timed.basis} {timed.ratio:.2f}x over the baseline; {timed.why}", style="")
    return text.append("\n").append_text(correct_text(timed.correct))


def _wrong(wrong: Wrong) -> Text:
    reasons = {
        "value": "holds a wrong value",
        "nan_pattern": "has NaN or infinity where the oracle has none, or the reverse",
        "unwritten": "was not written",
        "input_changed": "may only be read and was changed",
        "write_outside": "was written outside its bounds",
    }
    where = f"[{', '.join(map(str, wrong.index))}]"
    detail = f"  {wrong.argument}{where} {reasons[wrong.reason]}: expected {wrong.expected:.6g},"
    detail += f" got {wrong.got:.6g}; {wrong.bad} of {wrong.total} elements differ"
    return _bad(
        f"wrong on {wrong.case.label}", f"{detail}\n  {wrong.note}" if wrong.note else detail
    )


def _bad(head: str, detail: str) -> Text:
    text = Text(head, style="bold red")
    return text.append(f"\n{detail}", style="") if detail else text
