"""The prediction interval of ratios of estimates: fits its constants, and shows what it covers.

    python -m lab.virtual_gpu.calibration.intervals            # the constants, again
    python -m lab.virtual_gpu.calibration.intervals document   # figures into estimate.md

From recorded times and counters only. SPREAD and SHARED are fitted to pairs of two variants of one
task at one shape, of the six sets that the model was fitted to; JUDGED_LAUNCH_US to the judge's
measurements of the three tasks (tasks.py). The validation set and all ratios of the three tasks
have no part in SPREAD.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import correlation, median

from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.model.estimate import Estimate, estimate
from astra_vgpu.model.ratio_interval import (
    COVERAGE,
    JUDGED_LAUNCH_US,
    SHARED,
    SPREAD,
    log_half_width,
    scale_of,
    unlikeness,
)
from lab.virtual_gpu.calibration import calibrate, tasks
from lab.virtual_gpu.validation.points import HERE as VALIDATION
from lab.virtual_gpu.validation.score import score

DOCUMENT = calibrate.ROOT / "docs" / "research" / "estimate.md"
BEGIN, END = "<!-- begin: intervals.py -->", "<!-- end: intervals.py -->"
BEFORE = math.log(1.10)
"""Half width that was printed for every ratio before there was an interval."""


@dataclass(frozen=True)
class VariantPair:
    """Two kernels of one task at one shape."""

    set: str
    task: str
    kernels: tuple[str, str]
    one: Estimate
    other: Estimate
    measured_ratio: float
    """Time of `one` over that of `other`."""

    @property
    def log_error(self) -> float:
        """ln(estimated ratio / measured ratio)."""
        return math.log(self.one.us / self.other.us / self.measured_ratio)

    @property
    def score(self) -> float:
        """What SPREAD is a quantile of."""
        return abs(self.log_error) / scale_of(unlikeness(self.one, self.other))

    @property
    def covered(self) -> bool:
        return abs(self.log_error) <= log_half_width(self.one, self.other)


def pairs_of(name: str, points: Iterable[calibrate.CalibrationPoint]) -> list[VariantPair]:
    """All pairs of variants of one task and shape, cold."""
    groups = defaultdict(list)
    for point in points:
        call = estimate(point.reports, point.resources, spec("h200"))
        groups[point.group].append((point, call))
    return [
        VariantPair(
            name, str(group[0]), (_kernel(a), _kernel(b)), of_a, of_b, a.cold_us / b.cold_us
        )
        for group, members in groups.items()
        for (a, of_a), (b, of_b) in itertools.combinations(members, 2)
    ]


def _kernel(point: calibrate.CalibrationPoint) -> str:
    return str(point.label.split()[0])


def fitting_sets() -> dict[str, list[VariantPair]]:
    """What the constants are fitted to, by set."""
    sets = {"kernels.cu": calibrate.points()}
    sets |= {folder.name: calibrate.of_set(folder) for folder in calibrate.SETS}
    return {name: pairs_of(name, points) for name, points in sets.items()}


def validation_pairs() -> list[VariantPair]:
    return pairs_of("validation", calibrate.of_set(VALIDATION))


def against_baseline(launch_us: float = JUDGED_LAUNCH_US) -> list[VariantPair]:
    """Baseline over candidate, as the judge measured both side by side."""
    found = []
    for p in tasks.judged_points():
        candidate, baseline = p.estimates(launch_us)
        kernels = ("baseline", p.candidate)
        found.append(VariantPair("three tasks", p.task, kernels, baseline, candidate, p.ratio))
    return found


def edits(launch_us: float = JUDGED_LAUNCH_US) -> list[VariantPair]:
    """Two candidates of one run: each an edit of another. The paper's start is none."""
    cases = defaultdict(list)
    for p in tasks.judged_points():
        if not p.start:
            cases[p.task, p.case].append((p, p.estimates(launch_us)[0]))
    return [
        VariantPair("edits", a.task, (a.candidate, b.candidate), of_a, of_b, b.ratio / a.ratio)
        for members in cases.values()
        for (a, of_a), (b, of_b) in itertools.combinations(members, 2)
    ]


def quantile(scores: Iterable[float]) -> float:
    """The conformal one: of n scores the ceil((n + 1) COVERAGE)-th."""
    ordered = sorted(scores)
    return ordered[min(len(ordered), math.ceil((len(ordered) + 1) * COVERAGE)) - 1]


def fitted_spread(sets: Iterable[Sequence[VariantPair]]) -> float:
    """The largest of the sets' quantiles."""
    return max(quantile(pair.score for pair in pairs) for pairs in sets)


def fitted_share(sets: Iterable[Sequence[VariantPair]]) -> float:
    """The largest of the sets' correlations."""
    return max(map(correlation_of, sets))


def correlation_of(pairs: Iterable[VariantPair]) -> float:
    """Correlation of errors at two shapes of the same two kernels."""
    shapes = defaultdict(list)
    for pair in pairs:
        shapes[pair.set, pair.task, pair.kernels].append(pair.log_error)
    both = [two for errors in shapes.values() for two in itertools.permutations(errors, 2)]
    return correlation([a for a, _ in both], [b for _, b in both])


def fitted_launch_us(points: Sequence[tasks.JudgedPoint]) -> float:
    """What leaves the least absolute log-errors of the candidates' times, in steps of 0.01."""
    calls = [(p.estimates(0.0)[0].us, len(p.of_candidate.reports), p.candidate_us) for p in points]

    def left(launch_us: float) -> float:
        return sum(abs(math.log((us + n * launch_us) / measured)) for us, n, measured in calls)

    return min((step / 100 for step in range(101)), key=left)


def means(pairs: Iterable[VariantPair]) -> list[tuple[float, float]]:
    """Error of the mean ratio of each two kernels over all shapes, and its half width, as
    tools/timing/intervals.py has it."""
    shapes = defaultdict(list)
    for pair in pairs:
        shapes[pair.set, pair.task, pair.kernels].append(pair)
    found = []
    for members in shapes.values():
        halves = [log_half_width(p.one, p.other) for p in members]
        variance = SHARED * sum(halves) ** 2 + (1 - SHARED) * sum(h * h for h in halves)
        error = sum(p.log_error for p in members) / len(members)
        found.append((abs(error), math.sqrt(variance) / len(members)))
    return found


def coverage(pairs: Sequence[VariantPair]) -> float:
    return sum(pair.covered for pair in pairs) / len(pairs)


def half_width(pairs: Sequence[VariantPair]) -> float:
    """The median, as a share of the ratio."""
    return math.expm1(median(log_half_width(p.one, p.other) for p in pairs))


def left_out() -> Iterator[tuple[str, list[VariantPair], float]]:
    """Each set with the SPREAD of the others."""
    sets = fitting_sets()
    for name, pairs in sets.items():
        yield name, pairs, fitted_spread(p for other, p in sets.items() if other != name)


def document() -> str:
    """The section of estimate.md."""
    return "\n".join([*_coverage_table(), "", *_bias_table(), "", *_tasks_table()])


def _coverage_table() -> Iterator[str]:
    yield (
        "| ratios | pairs | within 10 %, as before | within the interval | median half width"
        " | means over shapes within |"
    )
    yield "|---|---|---|---|---|---|"
    unseen = validation_pairs()
    yield _row("**validation set**", unseen, unseen)
    yield _row("**three tasks: baseline, candidate**", against_baseline(0.0), against_baseline())
    yield _row("**three tasks: edits of one kernel**", edits(0.0), edits())
    for name, pairs, spread in left_out():
        share = sum(pair.score <= spread for pair in pairs) / len(pairs)
        width = math.expm1(median(log_half_width(p.one, p.other) for p in pairs) * spread / SPREAD)
        yield (
            f"| {name}, left out | {len(pairs)} | {_within_before(pairs):.0%} | {share:.0%}"
            f" | {width:.0%} | |"
        )


def _row(name: str, before: Sequence[VariantPair], now: Sequence[VariantPair]) -> str:
    of_means = means(now)
    mean_share = sum(error <= half for error, half in of_means) / len(of_means)
    return (
        f"| {name} | {len(now)} | {_within_before(before):.0%} | {coverage(now):.1%}"
        f" | {half_width(now):.1%} | {mean_share:.0%} of {len(of_means)} |"
    )


def _within_before(pairs: Sequence[VariantPair]) -> float:
    return sum(abs(pair.log_error) <= BEFORE for pair in pairs) / len(pairs)


def _bias_table() -> Iterator[str]:
    yield (
        "| task | time, before | time, now | constant from the other two, us | time with it"
        " | ratio, before | ratio, now | ratio with it |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    points = [point for point in tasks.judged_points() if not point.start]
    for name in tasks.RUNS:
        own = [p for p in points if p.task == name]
        apart = fitted_launch_us([p for p in points if p.task != name])
        cells = [
            _percent(time_bias(own, 0.0)),
            _percent(time_bias(own)),
            f"{apart:.2f}",
            _percent(time_bias(own, apart)),
            _percent(ratio_bias(own, 0.0)),
            _percent(ratio_bias(own)),
            _percent(ratio_bias(own, apart)),
        ]
        yield f"| {name} | {' | '.join(cells)} |"


def _tasks_table() -> Iterator[str]:
    yield "| task | points | median error | pairs in order | best named within 5 % | worst regret |"
    yield "|---|---|---|---|---|---|"
    for name in tasks.RUNS:
        found = score(tasks.scored([p for p in tasks.judged_points() if p.task == name]))
        yield (
            f"| {name} | {found.points} | {found.median_error:.1%} | {found.right}/{found.pairs}"
            f" | {found.groups - found.regretted}/{found.groups} | {found.worst_regret:.2f}x |"
        )


def _percent(share: float) -> str:
    return f"{share:+.1%}"


def time_bias(points: Sequence[tasks.JudgedPoint], launch_us: float = JUDGED_LAUNCH_US) -> float:
    """Median error of the candidates' estimated times, as a share."""
    return median(p.estimates(launch_us)[0].us / p.candidate_us - 1 for p in points)


def ratio_bias(points: Sequence[tasks.JudgedPoint], launch_us: float = JUDGED_LAUNCH_US) -> float:
    """Error of the estimated ratios over the baseline, as a share: geometric mean."""
    errors = []
    for p in points:
        candidate, baseline = p.estimates(launch_us)
        errors.append(math.log(baseline.us / candidate.us / p.ratio))
    return math.expm1(sum(errors) / len(errors))


def main(what: str = "") -> None:
    if what == "document":
        before, _, rest = DOCUMENT.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        DOCUMENT.write_text(f"{before}{BEGIN}\n{document()}\n{END}{after}")
        return
    sets = fitting_sets()
    print(f"SPREAD {fitted_spread(sets.values()):.3f}")
    print(f"SHARED {fitted_share(sets.values()):.2f}")
    print(f"JUDGED_LAUNCH_US {fitted_launch_us(tasks.judged_points()):.2f}")
    print(document())


if __name__ == "__main__":
    main(*sys.argv[1:])
