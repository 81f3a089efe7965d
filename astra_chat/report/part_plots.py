"""Where the time of each case goes, before and after: by the parts that a profile gives, else by
what the memory hierarchy adds to the physical limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from astra_chat.report.case_plots import BAR, BELOW, MOST_CASES, ROW_IN, TOP, case_rows, look
from astra_chat.report.figures import BASELINE, BEST, GOOD, MUTED, SERIES, TIE, Drawing, Plot, words
from astra_chat.tools.profiling.metrics import TIME_PARTS
from astra_chat.tools.types import AnyTime, Basis, MeasuredTime, Profile, Timed
from astra_chat.transcript.ledger import ON_GPU
from astra_chat.transcript.spending import Spent
from astra_chat.transcript.summary import Timing

COLORS = dict(zip(TIME_PARTS, (MUTED, SERIES[1], SERIES[4], SERIES[3], SERIES[0]), strict=True))
XLABEL = "% of the baseline's time, L2 cold. Above: baseline, below: best"


def profiles_of(timed: Timed | None) -> dict[str, Profile]:
    """Profiles that divide their time into parts, by the labels of their cases."""
    every = (timed.profile, *timed.other_profiles) if timed else ()
    names = set(TIME_PARTS.values())
    return {p.case.label: p for p in every if names <= {metric.name for metric in p.metrics}}


def profiled_parts(
    name: str,
    cases: Sequence[AnyTime],
    before: Mapping[str, Profile],
    after: Mapping[str, Profile],
    basis: Basis,
) -> Drawing | None:
    """Draw the parts of each case's time by the profiles of the baseline and the best candidate;
    None where there are none."""
    shown = [one for one in cases if one.case.label in before][:MOST_CASES]
    if not shown:
        return None
    plot = case_rows(f"{name}-parts", "Where the time goes, before and after", shown)
    for row, case in enumerate(shown):
        label = case.case.label
        whole = sum(_parts_of(before[label]).values()) or 1.0
        _profiled(plot, row + TOP, _parts_of(before[label]), whole, "baseline", basis)
        if label in after:
            _profiled(plot, row + BELOW, _parts_of(after[label]), whole, "best", basis)
    _label(plot)
    plot.legend(5)
    what = (
        "by the virtual GPU's model"
        if basis == "estimated"
        else (
            "of Nsight Compute's duration, attributed from its metrics rather than measured"
            " separately"
        )
    )
    caption = (
        f"Parts {what}. Fixed: starting the launch and its first access to memory. Block start:"
        " starting blocks. Waits: for loads and atomics."
    )
    return plot.drawing(caption, basis)


def measured_parts(name: str, timing: Timing, named: bool) -> Drawing | None:
    """Draw the parts of each case's time by times with a cold and a warm L2; None where no warm one
    was measured. `named`: it is a candidate's timing; else the baseline's against itself."""
    measured = [c for c in timing.cases if isinstance(c, MeasuredTime) and c.warm_us is not None]
    cases = measured[:MOST_CASES]
    if not cases:
        return None
    plot = case_rows(f"{name}-parts", "Where the time goes, before and after", cases)
    for row, case in enumerate(cases):
        whole = case.baseline_us
        warm = case.baseline_warm_us if case.baseline_warm_us is not None else case.baseline_us
        _measured(plot, row + TOP, (whole, warm, case.limit_us), whole, "baseline")
        if named and case.warm_us is not None:
            times = (case.median_us, case.warm_us, case.limit_us)
            _measured(plot, row + BELOW, times, whole, "best")
    _label(plot)
    plot.legend()
    caption = (
        "Measured: the physical limit; what a call takes beyond it with its data in the"
        " L2; and what fetching the data from memory adds. The host's launch overhead is"
        " in the table."
    )
    return plot.drawing(caption, "measured")


def _label(plot: Plot) -> None:
    plot.axes.set_xlim(0, max(100.0, plot.axes.get_xlim()[1]))
    plot.axes.set_xlabel(XLABEL)


def _parts_of(profile: Profile) -> dict[str, float]:
    """Returns the parts of a profile's time in microseconds."""
    values = {metric.name: metric.value for metric in profile.metrics}
    return {part: max(0.0, values[name]) for part, name in TIME_PARTS.items()}


def _profiled(
    plot: Plot, y: float, parts_us: Mapping[str, float], whole_us: float, label: str, basis: Basis
) -> None:
    left = 0.0
    for part, time_us in parts_us.items():
        said = part.replace("_", " ")
        plot.axes.barh(
            y,
            100 * time_us / whole_us,
            BAR,
            left,
            **look(COLORS[part], basis),
            label=said,
            gid=plot.hint(f"{label}: {said} {time_us:.2f} us"),
        )
        left += 100 * time_us / whole_us


def _measured(
    plot: Plot, y: float, times_us: tuple[float, float, float], whole_us: float, label: str
) -> None:
    """Draw one bar. `times_us`: with a cold L2, with a warm one, the physical limit."""
    cold, warm, limit = times_us
    shares = (
        ("physical limit", min(limit, cold), MUTED),
        ("above it, data in the L2", max(0.0, min(warm, cold) - limit), TIE),
        ("data from memory", cold - max(min(warm, cold), min(limit, cold)), BEST),
    )
    left = 0.0
    for name, part_us, color in shares:
        plot.axes.barh(
            y,
            100 * part_us / whole_us,
            BAR,
            left,
            **look(color, "measured"),
            label=name,
            gid=plot.hint(f"{label}: {name} {part_us:.2f} us"),
        )
        left += 100 * part_us / whole_us


def seconds_by_step(name: str, spent: Spent) -> Drawing | None:
    """None where nothing was judged."""
    steps = [step for step in spent.steps if step.seconds > 0]
    if not steps:
        return None
    plot = _rows(f"{name}-steps", "Time spent by the judge, by step", [str(s.step) for s in steps])
    for row, step in enumerate(steps):
        on_gpu = spent.gpu_s > 0 and step.step in ON_GPU
        plot.axes.barh(
            row,
            step.seconds,
            0.6,
            color=BEST if on_gpu else BASELINE,
            label="on the GPU" if on_gpu else "on the CPU",
            gid=plot.hint(f"{step.step}: {step.seconds:.1f} s"),
        )
    plot.axes.set_xlabel("s, all evaluations together")
    plot.legend()
    return plot.drawing("Times are from the clock of the machine that ran the judge.", None)


def tokens_by_role(name: str, spent: Spent) -> Drawing | None:
    """None where no live model was asked."""
    if not spent.roles:
        return None
    plot = _rows(f"{name}-tokens", "Tokens, by role", [role.role for role in spent.roles])
    for row, role in enumerate(spent.roles):
        parts = (
            ("in, cached", role.tokens.cached, BASELINE),
            ("in", max(0, role.tokens.prompt - role.tokens.cached), BEST),
            ("out, reasoning", role.tokens.reasoning, TIE),
            ("out", max(0, role.tokens.completion - role.tokens.reasoning), GOOD),
        )
        left = 0
        for label, count, color in parts:
            plot.axes.barh(
                row,
                count,
                0.6,
                left,
                color=color,
                label=label,
                gid=plot.hint(f"{role.role}: {count:,} tokens {label}"),
            )
            left += count
    plot.axes.set_xlabel("tokens")
    plot.axes.xaxis.set_major_formatter("{x:,.0f}")
    plot.legend(4)
    return plot.drawing("Tokens as counted by the servers.", None)


def _rows(name: str, title: str, labels: list[str]) -> Plot:
    plot = Plot(name, title, 0.9 + ROW_IN * len(labels), 0.9)
    plot.axes.set_yticks(range(len(labels)), [words(label, 16) for label in labels])
    plot.axes.invert_yaxis()
    plot.axes.grid(axis="y", visible=False)
    return plot
