"""Evaluations and profiles as rich renderables; the same words live, in replay and alone.

Kernel text, compiler output and names are data: they go through rich.text.Text, never markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from astra_chat.display.tables import FigureTable
from astra_chat.tools.descriptions import describe, launches, never_launched, number, verdict
from astra_chat.tools.evaluation import Evaluation, Step
from astra_chat.tools.profiling.ncu_agreement import agreement
from astra_chat.tools.timing.intervals import percent_of_limit
from astra_chat.tools.types import (
    AnyTime,
    CaseTime,
    Correct,
    MeasuredTime,
    Metric,
    Outcome,
    Profile,
    Timed,
)
from astra_chat.tools.wording import counted
from astra_vgpu.ground.gpu_specs import spec

WIDE = 110
"""Columns from which a metric's figures and words have room beside its name."""
WIDE_SHARE = 0.25
"""Share of results inside the band from which on a line says why."""
MAX_LABEL = 26
"""Columns of a case's name that is never broken."""
STYLES = {"accepted": "bold green", "correct": "bold green", "tie": "yellow"}
UNTESTED = "warning: Astra has never been tested on a GPU of this kind"
UNCONFIRMED = (
    "unconfirmed: the best of several evaluations is subject to selection bias; confirm a"
    " winner on fresh inputs and under the sanitizers with time --final"
)


def evaluation_text(evaluation: Evaluation) -> RenderableType:
    """Everything about an evaluation: outcome, table of cases, steps."""
    parts: list[RenderableType] = [
        outcome_text(evaluation.outcome),
        *([Text(f"trust: {evaluation.trust}")] if evaluation.trust else []),
        Text(f"candidate {evaluation.candidate} on {evaluation.device.name}", style="dim"),
    ]
    if evaluation.device.kind == "cuda" and not spec(evaluation.device.spec).tested:
        parts.append(Text(UNTESTED, style="yellow"))
    if isinstance(evaluation.outcome, Timed):
        below = [*gpu_lines(evaluation.outcome.cases), *agreement(evaluation.outcome.cases)]
        below += [UNCONFIRMED] * _is_selection(evaluation)
        below += launch_lines(evaluation)
        parts += [case_table(evaluation), *(Text(line, style="dim") for line in below)]
        parts.append(profile_line(evaluation.outcome.profile))
    if evaluation.check is not None:
        warnings = [*evaluation.check.warnings, *never_launched(evaluation.check)]
        parts += [Text(f"warning: {words}", style="yellow") for words in warnings]
    steps = "  ".join(map(step_words, evaluation.steps))
    return Group(*parts, Text(steps, style="dim"))


def step_words(step: Step) -> str:
    """ "time 3.1 s (1.2 s of it waiting for the GPU; from the cache)"."""
    waited = f"{step.waited_s:.1f} s of it waiting for the GPU" if step.waited_s >= 0.05 else ""
    more = "; ".join(filter(None, (waited, step.note)))
    return f"{step.name} {step.seconds:.1f} s" + (f" ({more})" if more else "")


def launch_lines(evaluation: Evaluation) -> list[str]:
    """What each timed case launches; none in old transcripts."""
    timed = evaluation.outcome
    cases = [time.case for time in timed.cases] if isinstance(timed, Timed) else []
    lines = [(case.label, launches(evaluation, case)) for case in cases]
    return [f"launches on {label}: {line}" for label, line in lines if line]


def _is_selection(evaluation: Evaluation) -> bool:
    timed = evaluation.outcome
    return isinstance(timed, Timed) and timed.basis == "measured" and not evaluation.confirms


def gpu_lines(cases: Sequence[AnyTime]) -> list[str]:
    """What the GPU said of itself while it was timed, from least to most; nothing of older runs."""
    said = [case.gpu for case in cases if isinstance(case, MeasuredTime) and case.gpu]
    if not said:
        return []

    def span(name: str) -> str:
        values = [value for one in said for value in one.get(name, ())]
        low, high = min(values, default=0), max(values, default=0)
        return f"{low:,}" if low == high else f"{low:,} to {high:,}"

    reasons = {value for one in said for value in one.get("throttle_reasons", ())}
    bits = ", ".join(hex(value) for value in sorted(reasons) if value)
    return [
        f"GPU during timing: SM {span('sm_clock_mhz')} MHz, memory {span('memory_clock_mhz')} MHz,"
        f" {span('temperature_c')} C, {span('power_w')} W,"
        f" clock event reasons (NVML): {bits or 'none'}"
    ]


def evidence_lines(evaluation: Evaluation) -> list[str]:
    """What an acceptance rests on besides the table: checks, sanitizers, the limit, the worst case.

    None for a candidate that was not timed.
    """
    timed, record = evaluation.outcome, evaluation.check
    if not isinstance(timed, Timed):
        return []
    lines = [f"sanitizers: {_sanitizers(evaluation)}"]
    if record is not None:
        lines.append(
            f"checked: {counted(record.calls, 'call')} on {counted(record.cases, 'case')},"
            f" {record.drawn} of them drawn at random;"
            f" {counted(record.elements, 'element')} compared with the oracle"
        )
        lines += [band_line(name, share) for name, share in record.band_shares.items()]
        if timed.correct.left_out:
            lines.append(
                f"left out: {counted(timed.correct.left_out, 'case')} on which the baseline fails"
            )
    least = min(timed.cases, key=lambda case: case.ratio)
    lines.append(
        f"slowest case: {least.case.label}, {timed.basis} {least.ratio:.3f}x"
        f" ({least.ratio_low:.3f} to {least.ratio_high:.3f})"
    )
    lines += memory_lines(timed.cases)
    reached = f"{timed.basis} {percent_of_limit(timed):.0f} % of the physical limit"
    return [*lines, f"all cases, weighted: {reached}"]


def memory_lines(cases: Sequence[CaseTime]) -> list[str]:
    """What a call of each case needs of memory, where that counts."""
    return [f"memory of a call of {c.case.label}: {c.memory.text}" for c in cases if c.memory]


def band_line(argument: str, share: float) -> str:
    """How many results of an argument may be either neighbour, and why where these are many."""
    line = f"precision: {share:.1%} of {argument} lie near a midpoint, so either neighbour passes"
    if share <= WIDE_SHARE:
        return line
    return f"{line}: terms cancel, or there are so many that float32's rounding errors add up"


def _sanitizers(evaluation: Evaluation) -> str:
    if evaluation.device.kind == "virtual":
        return (
            "the virtual GPU checked bounds, alignment, races and barriers in everything that ran"
        )
    if any(step.name == "sanitize" for step in evaluation.steps):
        return "memcheck, racecheck, initcheck and synccheck found nothing"
    return "did not run"


def outcome_text(outcome: Outcome) -> Text:
    """The verdict in the words that the chat uses; samples below it."""
    text = Text(describe(outcome), style=STYLES.get(verdict(outcome), "bold red"))
    correct = outcome.correct if isinstance(outcome, Timed) else outcome
    if isinstance(correct, Correct):
        where = "on all cases that were judged" if correct.left_out else "everywhere"
        share = f"; within the tolerance {where}; the largest error is {correct.worst:.0%} of it"
        text.append(share, style="")
        for note in correct.sampled:
            text.append(f"\n  sampled: {note}", style="dim")
    return text


def case_table(evaluation: Evaluation) -> RenderableType:
    """Per case: baseline, candidate, ratio with its interval, share of the physical limit; whole at
    80 columns."""
    timed = evaluation.outcome
    assert isinstance(timed, Timed)
    measured = timed.basis == "measured"
    how = (
        f"measured on {evaluation.device.name}, L2 cold"
        if measured
        else f"estimated ({evaluation.device.name}), L2 cold"
    )
    word = "" if measured else "estimated\n"
    names = [f"{word}baseline us", f"{word}candidate us", "ratio", "interval", "% of\nlimit"]
    table = _table("case", names)
    # The limiter gives way to it, with the notes that may stand there.
    longest = max(len(case.case.label) for case in timed.cases)
    table.columns[0].min_width = min(longest, MAX_LABEL)
    if not measured:
        table.add_column("limiter", overflow="fold")
    for case in timed.cases:
        table.add_row(*_case_cells(case))
    parts: list[RenderableType] = [Text(how, style="italic"), table]
    parts += map(Text, memory_lines(timed.cases))
    if measured:
        parts.append(_other_times([c for c in timed.cases if isinstance(c, MeasuredTime)]))
    notes = sorted({c.note for c in timed.cases if isinstance(c, MeasuredTime) and c.note})
    return Group(*parts, *(Text(f"* {note}", style="dim") for note in notes))


def _other_times(cases: Sequence[MeasuredTime]) -> FigureTable:
    """Baseline and candidate again, timed in other ways."""
    table = _table("us, baseline / candidate", ["L2 warm", "by events"])
    for case in cases:
        warm = _pair(case.baseline_warm_us, case.warm_us)
        table.add_row(Text(case.case.label), warm, _pair(case.baseline_event_us, case.event_us))
    return table


def _table(first: str, columns: Sequence[str]) -> FigureTable:
    """A table of figures, none of which is ever cut."""
    table = FigureTable(pad_edge=False, box=None)
    table.add_column(first, overflow="fold")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def profile_text(profile: Profile) -> RenderableType:
    """A profile alone: every metric with its words, and what lines of the source cost."""
    title = Text(f"{profile.basis} profile of {profile.case.label}")
    parts: list[RenderableType] = [title, _Metrics(profile.metrics)]
    if profile.lines:
        if profile.basis == "measured":
            parts.append(Text("By source line, counted on the virtual GPU:"))
        parts.append(source_lines(profile))
    return Group(*parts, profile_line(profile))


def source_lines(profile: Profile) -> FigureTable:
    """Cycles of the longest warp's chain of results by line, and its rounds of loads."""
    table = FigureTable(pad_edge=False, box=None)
    for name in ("chain cycles", "load rounds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("source line of the longest warp", overflow="fold")
    for line in profile.lines:
        rounds = f"{line.load_rounds:.0f}" if line.load_rounds else ""
        place = Text(f"{line.place}: ", style="dim").append(line.text, style="")
        if line.waited_at:
            place.append(f" (waited for at {line.waited_at})", style="dim")
        table.add_row(f"{line.chain_cycles:.0f}", rounds, place)
    return table


@dataclass(frozen=True)
class _Metrics:
    """Figures, words and Nsight Compute's names, which are long: on a narrow terminal each below
    its words."""

    metrics: tuple[Metric, ...]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= WIDE
        table = Table(pad_edge=False, box=None, show_header=bool(self.metrics))
        if wide:
            table.add_column("metric", no_wrap=True)
        table.add_column("value", justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        table.add_column("meaning", overflow="fold")
        for metric in self.metrics:
            figure = (number(metric.value), Text(metric.unit))
            if wide:
                table.add_row(Text(metric.name), *figure, Text(metric.words))
            else:
                name = Text(f"\n{metric.name}", "dim")
                table.add_row(*figure, Text(metric.words) + name)
        yield table


def profile_line(profile: Profile) -> Text:
    text = Text(f"bottleneck ({profile.basis}): ", style="bold")
    text.append(f"{profile.bottleneck} — {profile.why}", style="")
    limit = (
        f"; physical limit {profile.limit_us:.2f} us, of which it reaches"
        f" {profile.percent_of_limit:.0f} %"
    )
    return text.append(limit)


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
    else:
        limiter = getattr(case, "limiter", "")
        note = getattr(case, "note", "")
        cells.append(Text(f"{limiter}; {note}" if note else limiter))
    return cells


def _pair(baseline_us: float | None, candidate_us: float | None) -> str:
    known = baseline_us is not None and candidate_us is not None
    return f"{baseline_us:.2f} / {candidate_us:.2f}" if known else "-"
