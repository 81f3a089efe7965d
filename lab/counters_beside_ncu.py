"""Compare CUPTI's counters with Nsight Compute's, for the same calls of shipped kernels on a GPU:
`python -m lab.counters_beside_ncu [TASK ...] --device cuda`.

The kernels are each task's baselines and the winner of its scripted run. Prints, per kernel, the
wall-clock seconds of both (their processes are started before, as in an evaluation) and the
bottleneck according to each; at the end, how much each metric differs: counts in percent of Nsight
Compute's, shares in percentage points. Figures: docs/research/measurements.md.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from astra_chat.models.script import scripted_names
from astra_chat.tools.build.nvcc import build, require_build
from astra_chat.tools.profiling import metrics as m
from astra_chat.tools.profiling.hardware_counters import (
    HardwareCounters,
    by_cupti,
    prepare_counters,
)
from astra_chat.tools.profiling.nsight_compute import by_ncu, prepare_ncu
from astra_chat.tools.profiling.profile import together
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, find_task, task_names
from astra_chat.tools.task.tiers import TIER_FILES, baseline_source
from astra_chat.tools.types import Device, Metric
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import spec
from lab.baselines.beside import best_side
from lab.commands import one_line_errors

STARTED_S = 3.0
"""A tool that was told to start waits for its request by then."""
ROUNDING = 0.005
"""Nsight Compute prints two decimals."""
Differences = dict[str, list[float]]
Made = TypeVar("Made")


def kernels(task: Task) -> Iterator[tuple[str, str]]:
    """Names and sources of the kernels of a task."""
    for tier, file in TIER_FILES.items():
        if (task.folder / file).is_file():
            yield f"{task.name} {tier}", baseline_source(task, tier)
    if task.name in scripted_names():
        yield f"{task.name} scripted", best_side(task).source


def measure(name: str, task: Task, source: str, device: Device, apart: Differences) -> str:
    """One line about a kernel; its differences are added to `apart`. Raises BadInput where it
    fails."""
    built = require_build(build(task, source, device), f"the kernel {name}")
    runner, oracle = Runner(task, device), Oracle(task)
    try:
        cases = oracle.oracle_cases([case for case, _ in task.bench], runner.stop)
        prepare_counters(runner, oracle.inputs)
        prepare_ncu(runner, oracle.inputs)
        runner.record(built, [one.case for one in cases])
        time.sleep(STARTED_S)
        ours, ours_s = _timed(lambda: _required(name, by_cupti(runner, built, cases)))
        theirs, theirs_s = _timed(lambda: _required(name, by_ncu(runner, built, cases)))
    finally:
        runner.dismiss()
        oracle.close()
    bottlenecks = list[str]()
    for mine, other in zip(ours.cases, theirs.cases, strict=True):
        both = together(ours.units, mine), together(theirs.units, other)
        first, second = (m.read(one, spec(device.spec)).bottleneck for one in both)
        bottlenecks.append(first if first == second else f"{first} (Nsight Compute: {second})")
        _compare(*both, apart)
    return f"{name}: {ours.words}: {ours_s:.2f} s, ncu {theirs_s:.2f} s; {', '.join(bottlenecks)}"


def _timed(make: Callable[[], Made]) -> tuple[Made, float]:
    start = time.perf_counter()
    return make(), time.perf_counter() - start


def _required(name: str, found: HardwareCounters | Failure) -> HardwareCounters:
    if not isinstance(found, HardwareCounters):
        raise BadInput(f"the kernel {name} fails: {found}")
    return found


def _compare(ours: Mapping[str, Metric], theirs: Mapping[str, Metric], apart: Differences) -> None:
    for name in sorted(ours.keys() & theirs.keys()):
        mine, other = ours[name].value, theirs[name].value
        points = ours[name].unit == "%"
        if abs(mine - other) <= ROUNDING:
            mine = other
        relative = 100 * (mine - other) / other if other else 100.0 * (mine != other)
        apart[name].append(mine - other if points else relative)


def summary(apart: Differences) -> Iterator[str]:
    """A line for each metric: smallest, largest and median difference over all cases."""
    for name in m.ASKED:
        if found := apart.get(name):
            unit = "points" if name.endswith("pct") or ".pct" in name else "%"
            least, middle, most = min(found), statistics.median(found), max(found)
            yield f"{name}: {least:+.2f} to {most:+.2f} {unit}, median {middle:+.2f}"


@one_line_errors()
def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lab.counters_beside_ncu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="default: all")
    parser.add_argument("--device", default="cuda", help="cuda or cuda:N")
    asked = parser.parse_args(words)
    device = pick_device(asked.device)
    if device.kind != "cuda":
        raise BadInput("only a GPU has counters: --device cuda")
    apart: Differences = defaultdict(list)
    for task in map(find_task, asked.tasks or task_names()):
        for name, source in kernels(task):
            print(measure(name, task, source, device, apart), flush=True)
    for line in summary(apart):
        print(line)


if __name__ == "__main__":
    main()
