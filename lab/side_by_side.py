"""Winners and today's kernels timed side by side in one run: of each case the fastest rival, and
the tables of docs/research/over-today.md that say so.

What is read are files of `python -m lab.baselines measure --winners`. A rival that could not be
timed is named with its reason (lab/rivals.toml, or the failure), never silently left out.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from astra_chat.tools.timing.intervals import mean_interval
from astra_chat.tools.types import MeasuredTime
from lab.baselines.evidence import Comparison
from lab.result_tables import geomean, table_row
from lab.rivals import Registry, Rival

NAMED_BELOW = 0.97
"""Cases below it are counted beside the mean."""


@dataclass(frozen=True)
class FastestRival:
    """The winner on one case beside the fastest of today's kernels."""

    task: str
    name: str
    """The name of the fastest with a cold L2."""
    time: MeasuredTime
    """The rival's as the baseline: a ratio above 1 says that the winner is faster."""
    warm: tuple[float, str] | None
    """The lowest ratio with the data in the L2, and the rival's name."""

    @property
    def label(self) -> str:
        return self.time.case.label


@dataclass(frozen=True)
class TaskSideBySide:
    """A task's winner beside today's kernels on one GPU."""

    task: str
    candidate: str
    """The winner's id."""
    cases: tuple[FastestRival, ...]
    measured: tuple[str, ...]
    """Names of the rivals that were timed."""
    failures: tuple[tuple[str, str], ...]
    """Names of rivals that could not be timed, and why."""
    waiting: tuple[str, ...]
    """Names of the rivals that can be run and were not yet."""
    all_cases: int

    @property
    def is_whole(self) -> bool:
        """Whether all timed cases have a rival, and all rivals that can be run were."""
        return len(self.cases) == self.all_cases and not self.waiting

    @property
    def mean(self) -> float:
        return geomean([c.time.ratio for c in self.cases], [c.time.weight for c in self.cases])

    @property
    def warm_mean(self) -> float | None:
        warm = [(c.warm[0], c.time.weight) for c in self.cases if c.warm]
        return geomean([r for r, _ in warm], [w for _, w in warm]) if warm else None

    @property
    def lowest(self) -> FastestRival:
        return min(self.cases, key=lambda case: case.time.ratio)


def side_by_side(
    found: Iterable[Comparison],
    winners: Mapping[str, str],
    all_cases: Mapping[str, int],
    registry: Registry,
) -> list[TaskSideBySide]:
    """An entry for each task with comparisons of its winner, by name. `winners`: ids of the present
    winners by task; comparisons of another are left out. `all_cases`: numbers of timed cases."""
    known = [
        one
        for one in found
        if one.second.tier == "winner" and one.second.content == winners.get(one.task)
    ]
    entries = []
    for task in sorted({one.task for one in known}):
        mine = [one for one in known if one.task == task]
        tried = {one.first.name for one in mine}
        runnable = (name for rival in registry.of_task(task) for name in rival.measured)
        if cases := fastest_rivals(mine):
            entries.append(
                TaskSideBySide(
                    task,
                    winners[task],
                    tuple(cases),
                    tuple(one.first.name for one in mine if one.cases),
                    tuple((one.first.name, one.failure) for one in mine if one.failure),
                    tuple(name for name in runnable if name not in tried),
                    all_cases[task],
                )
            )
    return entries


def fastest_rivals(found: Sequence[Comparison]) -> list[FastestRival]:
    """Returns of each case the comparison with the lowest ratio of the winner over a rival, in the
    order in which cases first come."""
    times: dict[str, list[tuple[MeasuredTime, str]]] = {}
    for one in found:
        for case in one.cases:
            times.setdefault(case.case.label, []).append((case, one.first.name))
    fastest = []
    for some in times.values():
        time, name = min(some, key=lambda each: each[0].ratio)
        warm = [(r, n) for each, n in some if (r := warm_ratio(each)) is not None]
        fastest.append(FastestRival(found[0].task, name, time, min(warm, default=None)))
    return fastest


def warm_ratio(time: MeasuredTime) -> float | None:
    """How many times as fast as its baseline a kernel is with the data in the L2."""
    if not time.warm_us or not time.baseline_warm_us:
        return None
    return time.baseline_warm_us / time.warm_us


def sections(gpu: str, day: str, found: Sequence[TaskSideBySide]) -> Iterator[str]:
    """All tables of one GPU but for what was not run, the lost cases first. `day`: the day or
    days on which it was measured, or empty."""
    when = f", {day}" if day else ""
    yield from ("", f"## On {gpu}, side by side{when}", "")
    yield from _lost(found)
    yield from _by_task(found)
    yield from _each_case(found)


def _lost(found: Sequence[TaskSideBySide]) -> Iterator[str]:
    cases = [case for one in found for case in one.cases]
    lost = sorted((c for c in cases if c.time.ratio < 1), key=lambda case: case.time.ratio)
    yield f"### Lost cases: {len(lost)} of {len(cases)}"
    yield ""
    if lost:
        yield from _table(lost)
        yield ""


def _table(cases: Sequence[FastestRival]) -> Iterator[str]:
    yield table_row("task", "case", "fastest rival", "its us", "ours", "ratio, 95 %", "L2 warm")
    yield table_row(*["---"] * 7)
    for case in cases:
        time = case.time
        yield table_row(
            case.task,
            case.label,
            case.name,
            f"{time.baseline_us:.2f}",
            f"{time.median_us:.2f}",
            f"{time.ratio:.3f} ({time.ratio_low:.3f} to {time.ratio_high:.3f})",
            _warm(case),
        )


def _warm(case: FastestRival) -> str:
    if case.warm is None:
        return ""
    ratio, name = case.warm
    return f"{ratio:.2f}" + ("" if name == case.name else f" ({name})")


def _by_task(found: Sequence[TaskSideBySide]) -> Iterator[str]:
    yield from ("### By task", "")
    yield table_row(
        *("task", "over today, 95 %", "L2 warm", "slowest case", "cases", "fastest"),
        *("others timed", "not timed yet"),
    )
    yield table_row(*["---"] * 8)
    for one in found:
        low, high = mean_interval([case.time for case in one.cases])
        fastest = {case.name for case in one.cases}
        yield table_row(
            one.task,
            f"{one.mean:.2f} ({low:.2f} to {high:.2f})",
            f"{one.warm_mean:.2f}" if one.warm_mean else "",
            f"{one.lowest.time.ratio:.2f} ({one.lowest.label})",
            f"{len(one.cases)} of {one.all_cases}",
            ", ".join(sorted(fastest)),
            ", ".join(sorted(set(one.measured) - fastest)),
            ", ".join(sorted(one.waiting)),
        )
    yield from ("", over_all(found), "")


def over_all(found: Sequence[TaskSideBySide]) -> str:
    """Returns the one figure for all tasks, with what is below it."""
    cases = [case for one in found for case in one.cases]
    tasks = sorted(one.task for one in found if one.mean < 1)
    below = ", ".join(tasks) if tasks else "none"
    few = sum(case.time.ratio < NAMED_BELOW for case in cases)
    waiting = sum(len(one.waiting) for one in found)
    open_end = (
        f" {waiting} rivals that can be run have not been timed yet, and can only lower the ratios."
        if waiting
        else ""
    )
    return (
        f"Geometric mean over these {len(found)} tasks: "
        f"**{geomean([one.mean for one in found]):.2f}**; tasks below 1: {below}; cases below "
        f"{NAMED_BELOW}: {few} of {len(cases)}.{open_end}"
    )


def _each_case(found: Sequence[TaskSideBySide]) -> Iterator[str]:
    yield from ("### Each case", "")
    yield from _table([case for one in found for case in one.cases])


def not_timed(registry: Registry, found: Sequence[TaskSideBySide]) -> Iterator[str]:
    """Yields a list item for each rival of these tasks that can be run and was not timed."""
    for one in found:
        failures = dict(one.failures)
        for rival in registry.of_task(one.task):
            for name in rival.measured:
                if name in failures:
                    yield f"- {_whose(rival)}, `{name}`: not run: {failures[name]}"
                elif name in one.waiting:
                    yield f"- {_whose(rival)}, `{name}`: not measured yet."


def not_run(registry: Registry, timed: Container[tuple[str, str]]) -> Iterator[str]:
    """Yields a list item for each reason why rivals are not run, with all of them; those that can
    be and are not among `timed`, tasks and names, are not timed in the files of the page."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for rival in registry.rival:
        waits = not any((rival.task, name) in timed for name in rival.measured)
        if rival.not_run or waits:
            reason = rival.not_run or "not timed in the files of this page"
            kernel = f"{rival.kernel} ({rival.task})" if rival.task else rival.kernel
            by_reason.setdefault((rival.package, reason), []).append(kernel)
    for (package, reason), kernels in by_reason.items():
        yield f"- {package}: {'; '.join(kernels)}: {reason}."


def _whose(rival: Rival) -> str:
    return f"{rival.task}: {rival.kernel} from {rival.package}"


def legend(registry: Registry, task: str) -> Iterator[str]:
    """Yields what the names of a task's rivals stand for."""
    for rival in registry.of_task(task):
        if rival.measured:
            names = ", ".join(f"`{name}`" for name in rival.measured)
            yield f"- {task}: {names}: {rival.kernel} from {rival.package}; {rival.calls}."
