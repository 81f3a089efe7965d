"""The virtual GPU's estimate of many candidates of a task: an order, no verdict.

No candidate is checked but on the timed cases, so what is ranked goes through the judge before
anything is said of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

from astra_chat.tools.build.nvcc import Build, build, build_all, require_build
from astra_chat.tools.check.hidden_cases import Weighted
from astra_chat.tools.entropy import Seed
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import KnownBaseline, Runner
from astra_chat.tools.system.cores import cores
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.timing.verdict import TimedCase, judge_times, time_cases
from astra_chat.tools.types import AnyTime, BuildFailed, Device, Outcome, TimedOut

AT_ONCE = 64
"""Candidates that are built together."""


def estimated_ratios(
    task: Task,
    device: Device,
    baseline: str,
    sources: Sequence[str],
    weighted: Weighted,
    seed: Seed,
    stop: Stop,
    on_done: Callable[[int], None] = lambda _: None,
) -> list[float | str]:
    """Speed of each source over the baseline's on the virtual GPU `device`, or the kind of the
    outcome that ended it. Raises BadInput where the baseline does not build, and Cancelled."""
    found = estimated_by_case(task, device, baseline, sources, weighted, seed, stop, on_done)
    return [one if isinstance(one, str) else judge_times(one)[0] for one in found]


def estimated_by_case(
    task: Task,
    device: Device,
    baseline: str,
    sources: Sequence[str],
    weighted: Weighted,
    seed: Seed,
    stop: Stop,
    on_done: Callable[[int], None] = lambda _: None,
) -> list[list[AnyTime] | str]:
    """Times of each source on the virtual GPU `device`, case by case, or the kind of the outcome
    that ended it. Raises BadInput where the baseline does not build, and Cancelled."""
    found = list[list[AnyTime] | str]()
    for times in estimated_times(task, device, baseline, sources, weighted, seed, stop):
        if isinstance(times, list):
            found.append([one.time for one in times])
        else:
            found.append(times.kind)
        on_done(len(found))
    return found


def estimated_times(
    task: Task,
    device: Device,
    baseline: str,
    sources: Sequence[str],
    weighted: Weighted,
    seed: Seed,
    stop: Stop,
) -> Iterator[list[TimedCase] | Outcome]:
    """Yields for each source in turn its times on the virtual GPU `device`, or what ended it; as
    many at once as there are cores. Raises BadInput where the baseline does not build, and
    Cancelled."""
    built = require_build(build(task, baseline, device, stop), f"the baseline of {task.name}")
    oracle, workers, free = Oracle(task), cores(), Queue[Runner]()
    known = KnownBaseline()
    for _ in range(workers):
        free.put(Runner(task, device, stop, seed=seed, known=known))
    try:
        made = oracle.oracle_cases([case for case, _ in weighted], stop)
        timed = [(one, weight) for one, (_, weight) in zip(made, weighted, strict=True)]

        def estimated(candidate: Build | BuildFailed | TimedOut) -> list[TimedCase] | Outcome:
            if not isinstance(candidate, Build):
                return candidate
            runner = free.get()
            try:
                return time_cases(runner, oracle, candidate, built, timed)
            finally:
                free.put(runner)

        with ThreadPoolExecutor(workers) as pool:
            for start in range(0, len(sources), AT_ONCE):
                builds = build_all(task, sources[start : start + AT_ONCE], device, stop)
                if not start:  # it makes what all need: the baseline's estimate, the recorder
                    yield estimated(builds.pop(0))
                yield from pool.map(estimated, builds)
    finally:
        oracle.close()
