"""docs/research/results.md from recorded runs: `python -m lab.results FILE...`.

A FILE is a transcript, what `astra-chat time TASK KERNEL --json` printed (the paper's start), what
baselines/, paper_method.py or estimates.py beside it wrote, or the figures that the paper
published. No figure stands in the document that is not in one of them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from astra_chat.package.winners import read_evaluation as saved_evaluation
from astra_chat.tools.descriptions import verdict
from astra_chat.tools.evaluation import EVALUATION_SCHEMA, Evaluation
from astra_chat.tools.recordings.reading import expanded, read_recorded
from astra_chat.tools.system.files import write_whole
from astra_chat.tools.timing.intervals import mean_interval
from astra_chat.tools.types import AnyTime, MeasuredTime, Timed
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.turns import evaluations_of, state_of
from astra_vgpu.ground.errors import BadInput
from lab import estimates, paper_method
from lab import result_tables as tables
from lab.baselines import evidence
from lab.baselines.evidence import Comparison, Evidence, of_task
from lab.commands import print_document
from lab.estimates import Estimates
from lab.paper_method import PaperMethod
from lab.result_tables import Published


@dataclass(frozen=True)
class TimedRun:
    """A transcript and the winner in it."""

    transcript: Transcript
    evaluation: Evaluation
    timed: Timed

    @property
    def task(self) -> str:
        return self.transcript.header.task.name


@dataclass
class Found:
    """What the files hold."""

    runs: list[TimedRun] = field(default_factory=list)
    others: list[tuple[str, Evaluation, Timed]] = field(default_factory=list)
    """Single evaluations, each with its file's name."""
    baselines: list[Evidence] = field(default_factory=list)
    method: PaperMethod | None = None
    estimates: Estimates | None = None
    published: Published | None = None

    def paper(self, run: TimedRun) -> Timed | None:
        """The paper's start against the same baseline."""
        papers = (t for name, e, t in self.others if _task_of(e, self.runs) == run.task)
        return next(papers, None)


def document(found: Found) -> str:
    """All tables as Markdown."""
    lines = [
        "# Results",
        "",
        "This page is written by `python -m lab.results` from recorded runs; each section"
        " names its file. Times are microseconds per call.",
        "",
        "- cold: CUDA-graph replay, none of the data in the L2",
        "- warm: CUDA-graph replay over one set of buffers",
        "- event, launch-inclusive: an event pair around each launch (the paper's method, but"
        " launched from Python)",
        "- % of limit: the physical limit divided by the time; the limit is the minimum number of"
        " bytes divided by the datasheet's bandwidth, or the minimum time of a launch",
        "- % of streaming: bytes per second, relative to the fastest kernel that only moves the"
        " same mix of reads and writes, measured in the same run; large: cases larger than the"
        " L2",
        "",
        "Baselines: `today` is what SGLang 0.5.23 runs (its run-time compiled kernel, or its"
        " compiled library if that kernel does not support the case), `sglang` is the algorithm of"
        " its 2025 library built with the same flags as the candidates (baselines.md), and `paper`"
        " is the baseline of arXiv 2509.07506.",
        "",
        *_summary(found),
    ]
    for run in found.runs:
        lines += _run(run, found)
    return "\n".join(lines).rstrip()


def _summary(found: Found) -> Iterator[str]:
    """One line a task."""
    yield (
        "| task | over `today` | slowest case | over `sglang` | slowest case | over `paper`, cold"
        " | large: % of streaming |"
    )
    yield "|---|---|---|---|---|---|---|"
    for run in found.runs:
        low, high = mean_interval(run.timed.cases)
        comparisons = of_task(found.baselines, run.task)
        today, paper = tables.todays(comparisons), found.paper(run)
        streaming = tables.of_streaming(run.task, comparisons)
        large = tables.large_cases(run.task, run.timed.cases, run.transcript.header.device.spec)
        shares = [streaming[c.case.label] for c in large if c.case.label in streaming]
        cells = [
            run.task,
            *_over_today(list(today.values())),
            f"**{run.timed.ratio:.3f}** ({low:.3f} to {high:.3f})",
            f"{min(c.ratio_low for c in run.timed.cases):.3f}",
            f"{_over(run.timed, paper):.2f}" if paper else "",
            f"{min(shares):.1f} or more" if shares else "",
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""
    if found.method:
        event, cold = tables.means_over_paper(found.method)
        yield (
            f"On the paper's twelve cases, the winners are {event:.2f}x as fast as `paper` with the"
            f" paper's own method and {cold:.2f}x in cold device time (geometric means; the paper"
            " reports 1.32x)."
        )
        yield ""


def _over_today(today: Sequence[MeasuredTime]) -> tuple[str, str]:
    """Two cells: the weighted geometric mean, and the slowest case."""
    if not today:
        return "", ""
    mean = tables.geomean([c.ratio for c in today], [c.weight for c in today])
    return f"**{mean:.3f}**", f"{min(c.ratio for c in today):.3f}"


def _over(timed: Timed, other: Timed) -> float:
    theirs = {case.case.label: case.median_us for case in other.cases}
    shared = [theirs[c.case.label] / c.median_us for c in timed.cases if c.case.label in theirs]
    return tables.geomean(shared)


def _run(run: TimedRun, found: Found) -> Iterator[str]:
    header = run.transcript.header
    low, high = mean_interval(run.timed.cases)
    yield f"## {run.task}"
    yield ""
    yield (
        f"{run.timed.basis.capitalize()} on {header.device.name}; baseline `{header.options.tier}`;"
        f" candidate `{run.evaluation.candidate}` from {run.transcript.path.name}. Weighted"
        f" geometric mean **{run.timed.ratio:.3f}x** ({low:.3f} to {high:.3f}); slowest case"
        f" {min(c.ratio_low for c in run.timed.cases):.3f}."
    )
    yield ""
    yield from _table(run.timed.cases)
    comparisons = of_task(found.baselines, run.task)
    yield from _other_kernels(run, comparisons)
    streaming = tables.of_streaming(run.task, comparisons)
    yield from tables.three_baselines(
        run.timed, found.paper(run), tables.todays(comparisons), streaming
    )
    if found.method:
        yield from tables.paper_method(run.task, found.method, found.published)
    if found.estimates:
        yield from tables.orders(run.task, found.estimates, _measured(run))
    yield from _rounds(run)


def _other_kernels(run: TimedRun, comparisons: Sequence[Comparison]) -> Iterator[str]:
    """A warning where the winner has changed since it was measured beside others."""
    contents = {c.second.content for c in comparisons if c.second.name == "best"}
    if contents - {run.evaluation.candidate}:
        yield (
            f"Today's kernels and streaming were measured with `{', '.join(sorted(contents))}`,"
            f" not `{run.evaluation.candidate}`."
        )
        yield ""


def _measured(run: TimedRun) -> dict[str, Timed]:
    """Every timed candidate of a run, its first timing."""
    measured: dict[str, Timed] = {}
    for evaluation in evaluations_of(run.transcript.records):
        if isinstance(evaluation.outcome, Timed):
            measured.setdefault(evaluation.candidate, evaluation.outcome)
    return measured


def _table(cases: Sequence[AnyTime]) -> Iterator[str]:
    measured = isinstance(cases[0], MeasuredTime)
    extra = " warm: baseline | candidate | event: baseline | candidate |" if measured else ""
    yield f"| case | weight | cold: baseline | candidate | ratio, 95 % | % of limit |{extra}"
    yield "|---|---|---|---|---|---|" + ("---|---|---|---|" if measured else "")
    for case in cases:
        cells = [
            case.case.label,
            f"{case.weight:g}",
            f"{case.baseline_us:.2f}",
            f"{case.median_us:.2f}",
            f"{case.ratio:.3f} ({case.ratio_low:.3f} to {case.ratio_high:.3f})",
            f"{case.percent_of_limit:.0f}",
        ]
        if isinstance(case, MeasuredTime):
            cells += [_us(case.baseline_warm_us), _us(case.warm_us)]
            cells += [f"{case.baseline_event_us:.2f}", f"{case.event_us:.2f}"]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _rounds(run: TimedRun) -> Iterator[str]:
    """Predicted and found, candidate by candidate."""
    yield "| round | plan | candidate | outcome | predicted over its parent | over the baseline |"
    yield "|---|---|---|---|---|---|"
    for found in state_of(run.transcript.records).rounds:
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


def load(paths: Iterable[Path]) -> Found:
    """What the files hold, each known by the schema that it names. Raises BadInput."""
    found = Found()
    for path in expanded(paths):
        if path.suffix == ".json":
            _json(path, found)
            continue
        transcript = read(path)
        best = state_of(transcript.records).best
        if best is None:
            raise BadInput(f"{path}: no candidate was faster in this run")
        found.runs.append(TimedRun(transcript, *best))
    return found


def _json(path: Path, found: Found) -> None:
    schema = _schema(path)
    if schema == evidence.SCHEMA:
        found.baselines.append(evidence.read(path))
    elif schema == paper_method.SCHEMA:
        found.method = paper_method.read(path)
    elif schema == estimates.SCHEMA:
        found.estimates = estimates.read(path)
    elif schema == tables.PUBLISHED_SCHEMA:
        found.published = tables.read_published(path)
    else:
        evaluation = read_evaluation(path)
        if isinstance(evaluation.outcome, Timed):
            found.others.append((path.stem, evaluation, evaluation.outcome))


def _schema(path: Path) -> str:
    try:
        return str(json.loads(read_recorded(path))["schema"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path} names no schema: {type(error).__name__}") from None


def read_evaluation(path: Path) -> Evaluation:
    """The evaluation in a file of `--json`, which may be compressed by gzip. Raises BadInput."""
    if evaluation := saved_evaluation(path):
        return evaluation
    raise BadInput(f"{path} is not an evaluation that --json saved")


def write_evaluation(path: Path, evaluation: Evaluation) -> None:
    """What `read_evaluation` reads, compressed by gzip; the file is there whole or not at all."""
    found = {"schema": EVALUATION_SCHEMA, "evaluation": evaluation.model_dump(mode="json")}
    write_whole(path, gzip.compress(json.dumps(found).encode(), mtime=0))


def _task_of(evaluation: Evaluation, runs: Sequence[TimedRun]) -> str:
    """The task of the run whose timed cases this evaluation shares most of."""
    assert isinstance(evaluation.outcome, Timed)
    labels = {case.case.label for case in evaluation.outcome.cases}
    shared = [(len(labels & {c.case.label for c in run.timed.cases}), run.task) for run in runs]
    most, task = max(shared, default=(0, ""))
    return task if most else ""


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main() -> None:
    print_document(lambda paths: document(load(paths)))


if __name__ == "__main__":
    main()
