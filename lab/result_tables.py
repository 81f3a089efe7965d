"""Tables of docs/research/results.md that set a winner beside other kernels.

Three baselines, a streaming kernel, the paper's method, and the order that the virtual GPU
estimated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import AnyTime, MeasuredTime, Timed, Value
from astra_vgpu.ground.gpu_specs import spec
from lab.baselines.evidence import Comparison
from lab.commands import read_document
from lab.estimates import Estimates
from lab.paper_method import EventTime, PaperMethod

PUBLISHED_SCHEMA = "astra-chat/paper-published/1"
TODAY = ("jit", "library")
"""Names of today's kernels in the order in which they stand in the column: SGLang compiles the
first at run time; where that does not take a case, its compiled library's stands there."""


class PublishedRow(Value):
    """What the paper's published files took; theirs, not ours."""

    task: str
    shape: tuple[int, ...]
    start_event_us: float
    start_cold_us: float
    winner_event_us: float
    winner_cold_us: float


class Published(Value):
    what: str
    rows: tuple[PublishedRow, ...]


def read_published(path: Path) -> Published:
    """Read the paper's published figures. Raises BadInput."""
    return read_document(path, PUBLISHED_SCHEMA, Published, "published figures")


def geomean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    weights = weights or [1.0] * len(values)
    logs = (w * math.log(v) for v, w in zip(values, weights, strict=True))
    return math.exp(sum(logs) / sum(weights))


def todays(found: Sequence[Comparison]) -> dict[str, MeasuredTime]:
    """Returns the times of today's kernel (as the baseline) and our best, by case."""
    cases: dict[str, MeasuredTime] = {}
    for name in TODAY:
        for comparison in found:
            if comparison.first.tier == "today" and comparison.first.name == name:
                if comparison.second.name == "best":
                    cases = {c.case.label: c for c in comparison.cases} | cases
    return cases


def of_streaming(task: str, found: Sequence[Comparison]) -> dict[str, float]:
    """Returns by case a kernel's bytes per second, in percent of those of the fastest streaming
    kernel beside it."""
    contract, percent = find_task(task), dict[str, float]()
    for comparison in found:
        if comparison.first.tier == "streaming":
            for case, moved in zip(comparison.cases, comparison.first_bytes, strict=True):
                share = 100 * case.ratio * contract.least_bytes(case.case) / moved
                label = case.case.label
                percent[label] = min(percent.get(label, math.inf), share)
    return percent


def large_cases(task: str, cases: Sequence[AnyTime], gpu: str) -> list[AnyTime]:
    """Returns the cases whose least bytes exceed the L2: memory bounds them."""
    contract, l2_bytes = find_task(task), spec(gpu).l2_bytes
    return [case for case in cases if contract.least_bytes(case.case) > l2_bytes]


def three_baselines(
    timed: Timed,
    paper: Timed | None,
    today: Mapping[str, MeasuredTime],
    streaming: Mapping[str, float],
) -> Iterator[str]:
    """sglang, paper and today beside the winner: cold, warm, launch-inclusive, of the limits."""
    papers = {case.case.label: case for case in paper.cases} if paper else {}
    yield (
        "The three baselines and the winner. `over today` was measured directly, so it is not the"
        " quotient of two columns."
    )
    yield ""
    yield (
        "| case | cold: sglang | paper | today | winner | over sglang | over paper | over today"
        " | % of limit | % of streaming |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for case in timed.cases:
        label = case.case.label
        its, now, share = papers.get(label), today.get(label), streaming.get(label)
        yield table_row(
            label,
            f"{case.baseline_us:.2f}",
            _us(its.median_us if its else None),
            _us(now.baseline_us if now else None),
            f"{case.median_us:.2f}",
            f"{case.ratio:.3f}",
            f"{its.median_us / case.median_us:.2f}" if its else "",
            f"{now.ratio:.3f} ({now.ratio_low:.3f} to {now.ratio_high:.3f})" if now else "",
            f"{case.percent_of_limit:.0f}",
            f"{share:.1f}" if share else "",
        )
    yield ""
    yield (
        "| case | warm: sglang | paper | today | winner"
        " | launch-inclusive: sglang | paper | today | winner |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for case in timed.cases:
        if isinstance(case, MeasuredTime):
            its, now = papers.get(case.case.label), today.get(case.case.label)
            other = its if isinstance(its, MeasuredTime) else None
            yield table_row(
                case.case.label,
                _us(case.baseline_warm_us),
                _us(other.warm_us if other else None),
                _us(now.baseline_warm_us if now else None),
                _us(case.warm_us),
                _us(case.baseline_event_us),
                _us(other.event_us if other else None),
                _us(now.baseline_event_us if now else None),
                _us(case.event_us),
            )
    yield ""


def paper_method(task: str, method: PaperMethod, published: Published | None) -> Iterator[str]:
    """The paper's twelve cases by its own method, its published figures beside them."""
    times = {(t.case.label, t.kernel): t for t in method.times if t.task == task}
    rows = {row.shape: row for row in published.rows if row.task == task} if published else {}
    labels = list(dict.fromkeys(t.case.label for t in method.times if t.task == task))
    if not labels:
        return
    yield (
        "With the paper's method: 20 warm-up launches, then the mean of 100 event pairs. Ours are"
        " launched from a C loop, without torch's dispatch; `cold` is from a process without torch."
        " The paper's published files were measured with torch's dispatch, about 10 us per call:"
    )
    yield ""
    yield (
        "| case | event: paper | sglang | winner | over paper | published: start | winner"
        " | cold: paper | sglang | winner | published winner | over it, cold |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    gains, over = [], []
    for label in labels:
        paper, ours, best = (times[label, kernel] for kernel in ("paper", "sglang", "best"))
        row = rows.get(tuple(best.case.dims.values()))
        gains.append(paper.mean_us / best.mean_us)
        over += [row.winner_cold_us / best.cold_us] if row else []
        yield table_row(
            label,
            _us(paper.mean_us),
            _us(ours.mean_us),
            _us(best.mean_us),
            f"{gains[-1]:.2f}",
            _us(row.start_event_us if row else None),
            _us(row.winner_event_us if row else None),
            _us(paper.cold_us),
            _us(ours.cold_us),
            _us(best.cold_us),
            _us(row.winner_cold_us if row else None),
            f"{over[-1]:.2f}" if row else "",
        )
    yield ""
    cold = geomean([times[x, "paper"].cold_us / times[x, "best"].cold_us for x in labels])
    yield (
        f"Geometric means over `paper`: **{geomean(gains):.2f}x** with its method, {cold:.2f}x"
        " cold." + (f" Over its published winners, cold: {geomean(over):.2f}x." if over else "")
    )
    yield ""


def means_over_paper(method: PaperMethod) -> tuple[float, float]:
    """Returns the mean ratio of our best over the paper's start, on all of the paper's cases: by
    its method, and cold."""
    kernels: dict[str, dict[tuple[str, str], EventTime]] = {}
    for time in method.times:
        kernels.setdefault(time.kernel, {})[time.task, time.case.label] = time
    paper, best = kernels["paper"], kernels["best"]
    return (
        geomean([paper[key].mean_us / best[key].mean_us for key in best]),
        geomean([paper[key].cold_us / best[key].cold_us for key in best]),
    )


def orders(task: str, found: Estimates, measured: Mapping[str, Timed]) -> Iterator[str]:
    """Candidates by estimated and by measured ratio on the cases that both have."""
    rows = []
    for one in found.estimates:
        timed = measured.get(one.candidate)
        if one.task == task and timed is not None:
            estimates = {case.case.label: case for case in one.cases}
            both = [c for c in timed.cases if c.case.label in estimates]
            weights = [case.weight for case in both]
            guess = geomean([estimates[c.case.label].ratio for c in both], weights)
            rows.append((one.file, guess, geomean([c.ratio for c in both], weights), len(both)))
    if len(rows) < 2:
        return
    yield (
        f"Order of the candidates as estimated ({found.device.name}) and as measured, over the"
        f" {rows[0][3]} cases that were both estimated and measured:"
    )
    yield ""
    yield "| candidate | estimated | measured |"
    yield "|---|---|---|"
    for file, guess, oracle_case, _ in rows:
        yield table_row(file, f"{guess:.3f}", f"{oracle_case:.3f}")
    yield ""
    inverted = [
        f"{a[0]} and {b[0]}" for a, b in combinations(rows, 2) if (a[1] - b[1]) * (a[2] - b[2]) < 0
    ]
    pairs = len(rows) * (len(rows) - 1) // 2
    correlation = spearman([row[1] for row in rows], [row[2] for row in rows])
    words = f": {', '.join(inverted)}" if inverted else ""
    yield (
        f"Rank correlation (Spearman) {correlation:.2f}; {len(inverted)} of {pairs} pairs in the"
        f" wrong order{words}."
    )
    yield ""


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Correlation of ranks; ties share theirs."""
    a, b = _ranks(first), _ranks(second)
    mean = (len(a) + 1) / 2
    covered = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    spread = math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return covered / spread if spread else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]


def table_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
