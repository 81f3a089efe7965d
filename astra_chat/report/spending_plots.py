"""Plots of what a run spent: the judge's seconds by step, the models' tokens by role."""

from __future__ import annotations

from astra_chat.report.case_plots import ROW_IN
from astra_chat.report.figures import BASELINE, BEST, GOOD, TIE, Drawing, Plot, words
from astra_chat.transcript.ledger import ON_GPU
from astra_chat.transcript.spending import Spent


def seconds_by_step(name: str, spent: Spent) -> Drawing | None:
    """None where nothing was judged."""
    steps = [step for step in spent.steps if step.seconds > 0]
    if not steps:
        return None
    plot = _rows(f"{name}-steps", "Seconds of the judge, by step", [str(s.step) for s in steps])
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
    return plot.drawing("Read from clocks of the machine that ran the judge.", None)


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
    return plot.drawing("As the servers counted them.", None)


def _rows(name: str, title: str, labels: list[str]) -> Plot:
    plot = Plot(name, title, 0.9 + ROW_IN * len(labels), 0.9)
    plot.axes.set_yticks(range(len(labels)), [words(label, 16) for label in labels])
    plot.axes.invert_yaxis()
    plot.axes.grid(axis="y", visible=False)
    return plot
