"""docs/results.md from recorded runs: `python -m astra_chat.results FILE... > docs/results.md`.

A FILE is a transcript, or what `astra-chat time TASK KERNEL --json` printed (the paper's start).
No figure stands in the document that is not in one of them.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from astra_chat.agents import thread as facts
from astra_chat.agents.words import verdict
from astra_chat.tools.errors import AstraError, BadInput
from astra_chat.tools.types import AnyTime, Evaluation, MeasuredTime, Timed
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.turns import thread

EVALUATION_SCHEMA = "astra-chat/evaluation/1"


@dataclass(frozen=True)
class Run:
    """A transcript and the winner in it."""

    transcript: Transcript
    evaluation: Evaluation
    timed: Timed

    @property
    def task(self) -> str:
        return self.transcript.header.task.name


def document(runs: Sequence[Run], others: Sequence[tuple[str, Evaluation, Timed]]) -> str:
    """All tables as Markdown; `others` are single evaluations, each with its file's name."""
    lines = [
        "# Results",
        "",
        "Made by `python -m astra_chat.results`; every figure comes from a file named beside it.",
        'Times are us per call. "cold": CUDA-graph replay, no data in the L2; "warm": replay over',
        'one set of buffers; "event": an event pair round each launch, launch overhead included',
        "(the paper's method).",
        "",
    ]
    for run in runs:
        lines += _run(run, [o for o in others if _task_of(o[1], runs) == run.task])
    return "\n".join(lines)


def _run(run: Run, others: Sequence[tuple[str, Evaluation, Timed]]) -> Iterator[str]:
    header = run.transcript.header
    low, high = mean_interval(run.timed.cases)
    yield f"## {run.task}"
    yield ""
    yield (
        f"{run.timed.basis.capitalize()} on {header.device.name}; baseline `{header.options.tier}`;"
        f" candidate `{run.evaluation.candidate}` of {run.transcript.path.name}. Weighted geometric"
        f" mean **{run.timed.ratio:.3f}x** ({low:.3f} to {high:.3f}); slowest case"
        f" {min(c.ratio_low for c in run.timed.cases):.3f}."
    )
    yield ""
    yield from _table(run.timed.cases)
    for name, evaluation, timed in others:
        yield from _beside(run, name, evaluation, timed)
    yield from _rounds(run)


def _table(cases: Sequence[AnyTime]) -> Iterator[str]:
    measured = isinstance(cases[0], MeasuredTime)
    extra = " warm: baseline | candidate | event: baseline | candidate |" if measured else ""
    yield f"| case | weight | cold: baseline | candidate | ratio, 95 % | % of limit |{extra}"
    yield "|---|---|---|---|---|---|" + ("---|---|---|---|" if measured else "")
    for case in cases:
        cells = [
            case.case.label, f"{case.weight:g}", f"{case.baseline_us:.2f}", f"{case.median_us:.2f}",
            f"{case.ratio:.3f} ({case.ratio_low:.3f} to {case.ratio_high:.3f})",
            f"{case.percent_of_limit:.0f}",
        ]  # fmt: skip
        if isinstance(case, MeasuredTime):
            cells += [_us(case.baseline_warm_us), _us(case.warm_us)]
            cells += [f"{case.baseline_event_us:.2f}", f"{case.event_us:.2f}"]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _beside(run: Run, name: str, other: Evaluation, timed: Timed) -> Iterator[str]:
    """Another kernel against the same baseline, and the winner over it."""
    theirs = {case.case.label: case for case in timed.cases}
    shared = [(c, theirs[c.case.label]) for c in run.timed.cases if c.case.label in theirs]
    yield f"Beside `{other.candidate}` ({name}), against the same baseline:"
    yield ""
    yield "| case | its cold | candidate cold | candidate over it, cold | by event pairs |"
    yield "|---|---|---|---|---|"
    for ours, its in shared:
        event = ""
        if isinstance(ours, MeasuredTime) and isinstance(its, MeasuredTime):
            event = f"{its.event_us / ours.event_us:.2f}"
        yield (
            f"| {ours.case.label} | {its.median_us:.2f} | {ours.median_us:.2f}"
            f" | {its.median_us / ours.median_us:.2f} | {event} |"
        )
    logs = [math.log(its.median_us / ours.median_us) for ours, its in shared]
    yield ""
    yield f"Geometric mean of the cold column: **{math.exp(sum(logs) / len(logs)):.2f}x**."
    yield ""


def _rounds(run: Run) -> Iterator[str]:
    """Predicted and found, candidate by candidate."""
    yield "| round | plan | candidate | outcome | predicted over its parent | over the baseline |"
    yield "|---|---|---|---|---|---|"
    for found in facts.rounds(thread(run.transcript.records)):
        for attempt in found.attempts:
            outcome = attempt.evaluation.outcome if attempt.evaluation else None
            finding = outcome or (attempt.build.result if attempt.build else None)
            word = verdict(finding) if finding else "-"
            ratio = f"{outcome.ratio:.3f}" if isinstance(outcome, Timed) else "-"
            kernel = attempt.kernel
            yield (
                f"| {found.number} | {found.plan.title} | `{kernel.candidate}` ({attempt.speaker})"
                f" | {word} | {found.plan.predicted_ratio:.2f} | {ratio} |"
            )
    yield ""


def mean_interval(cases: Sequence[AnyTime]) -> tuple[float, float]:
    """Interval of the weighted geometric mean: the cases' half widths in quadrature."""
    total = sum(c.weight for c in cases)
    middle = sum(c.weight * math.log(c.ratio) for c in cases) / total
    half = [math.log(c.ratio_high / c.ratio_low) / 2 * c.weight for c in cases]
    spread = math.sqrt(sum(h * h for h in half)) / total
    return math.exp(middle - spread), math.exp(middle + spread)


def load(paths: Iterable[Path]) -> tuple[list[Run], list[tuple[str, Evaluation, Timed]]]:
    """Transcripts with a winner, and single evaluations. Raises BadInput."""
    runs, others = [], []
    for path in paths:
        if evaluation := _evaluation(path):
            if isinstance(evaluation.outcome, Timed):
                others.append((path.stem, evaluation, evaluation.outcome))
            continue
        transcript = read(path)
        best = facts.best(thread(transcript.records))
        if best is None:
            raise BadInput(f"{path}: nothing got faster in this run")
        runs.append(Run(transcript, *best))
    return runs, others


def _evaluation(path: Path) -> Evaluation | None:
    """The evaluation in a file of `--json`; None where it is no such file."""
    if path.suffix != ".json":
        return None
    try:
        found = json.loads(path.read_text())
        if found["schema"] != EVALUATION_SCHEMA:
            raise BadInput(f"{path}: schema {found['schema']} is not {EVALUATION_SCHEMA}")
        return Evaluation.model_validate(found["evaluation"])
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        raise BadInput(f"{path} is no evaluation: {type(error).__name__}") from None


def _task_of(evaluation: Evaluation, runs: Sequence[Run]) -> str:
    """The task of the run whose timed cases this evaluation shares most of."""
    assert isinstance(evaluation.outcome, Timed)
    labels = {case.case.label for case in evaluation.outcome.cases}
    shared = [(len(labels & {c.case.label for c in run.timed.cases}), run.task) for run in runs]
    most, task = max(shared, default=(0, ""))
    return task if most else ""


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main() -> None:
    try:
        print(document(*load(Path(name) for name in sys.argv[1:])))
    except AstraError as error:
        print(f"astra-chat: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
