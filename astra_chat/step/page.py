"""The report of a step: lines for a terminal, and a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from astra_chat.report.html import style_sheet, templates
from astra_chat.step.judged import ModelResult, StepReport, StepTimes
from astra_chat.step.samples import AGAIN, ALL, ONLY, WITHOUT

TEMPLATES = Path(__file__).parent / "templates"
MEANING = {
    WITHOUT: "without winners",
    AGAIN: "same step, captured again",
    ALL: "all winners",
}


def words(report: StepReport) -> Iterator[str]:
    """The report as lines of text."""
    proof = report.proof
    yield f"{proof.engine} {proof.version}, torch {proof.torch}, {proof.gpu}"
    for model in report.models:
        yield f"{model.model}: {', '.join(f'{k} {v}' for k, v in model.facts.items())}"
        for variant in model.variants:
            name = named(variant.name)
            if variant.why_not:
                yield f"  {name:32} not measured: {variant.why_not}"
            for times in variant.times:
                yield f"  {name:32} {_line(times)}".rstrip()
        if model.no_reference:
            yield f"  logits not compared with float32: {model.no_reference}"
    for name, one in report.operators.items():
        yield f"{name}: {one.finding}: {one.why}{_of_promise(one.share)}"
    if report.share is not None:
        yield f"all winners together: {percent(report.share)} of the gain that kernel times predict"


def named(variant: str) -> str:
    """A variant as readers know it."""
    if variant.startswith(ONLY):
        return f"{variant.removeprefix(ONLY)} alone"
    return MEANING.get(variant, variant)


def percent(share: float | None) -> str:
    """A share as readers write it; nothing where none is known."""
    return "" if share is None else f"{100 * share:.0f} %"


def _of_promise(share: float | None) -> str:
    return "" if share is None else f"; {percent(share)} of the gain predicted from kernel times"


def _line(times: StepTimes) -> str:
    over = times.parity.over_without
    parity = f", error {over.ratio:.3f}x" if over else ""
    return (
        f"{times.requests:5} requests {times.median_us:9.1f} us  {times.speedup.words}"
        f"  {times.verdict}{_of_promise(times.share)}{parity}"
    )


def page(report: StepReport) -> str:
    """One self-contained page, without scripts."""
    rows = {model.model: _rows(model) for model in report.models}
    template = templates(TEMPLATES).get_template("step.html")
    return template.render(report=report, rows=rows, style=style_sheet(), percent=percent)


def _rows(model: ModelResult) -> list[dict[str, object]]:
    """A row for each variant: what was measured at each number of requests."""
    return [
        {
            "name": named(variant.name),
            "why_not": variant.why_not,
            "times": variant.times,
            "fell_back": [
                f"{name}: {count}x {why}"
                for name, reasons in variant.fell_back.items()
                for why, count in reasons.items()
            ],
        }
        for variant in model.variants
    ]
