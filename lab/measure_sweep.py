"""Measure a sweep of a thousand drawn cases on a GPU, in seconds:
`python -m lab.measure_sweep [TASK ...] --device cuda`.

For each task, the winner of its scripted run (or the baseline, if there is none) is compared with
the baseline, as tools/check/sweep.py does for every candidate. The sweep's process is started
before, as in an evaluation, where it starts while nvcc runs. Figures:
docs/research/measurements.md."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from astra_chat.models.script import scripted_names
from astra_chat.tools.build.nvcc import build, require_build
from astra_chat.tools.check.sweep import CHILD, Sweep
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task, task_names
from astra_chat.tools.types import Device
from astra_vgpu.ground.errors import BadInput
from lab.baselines.beside import best_side
from lab.commands import one_line_errors

STARTED_S = 6.0
"""A process that was told to start has loaded torch by then."""


def measure(name: str, device: Device, repeats: int) -> str:
    """One line: cases, those in doubt, and wall seconds. Raises BadInput where the device is no
    real GPU or the kernel fails."""
    if device.kind != "cuda":
        raise BadInput("a sweep needs a GPU: --device cuda")
    task = find_task(name)
    source = best_side(task).source if name in scripted_names() else task.baseline
    built = require_build(build(task, source, device), f"the kernel of {name}")
    oracle, runner = Oracle(task), Runner(task, device)
    sweep = Sweep(runner, oracle, Entropy("5").cases)
    try:
        start = time.perf_counter()
        sweep.ready()
        ready_s, seconds = time.perf_counter() - start, list[float]()
        for _ in range(repeats):
            runner.prepare("check", oracle.inputs, child=CHILD)
            time.sleep(STARTED_S)
            start = time.perf_counter()
            found = sweep.doubtful(runner, built)
            seconds.append(time.perf_counter() - start)
            if not isinstance(found, tuple):
                raise BadInput(f"the kernel of {name} fails: {found}")
        compared, doubtful = found
    finally:
        runner.dismiss()
        oracle.close()
    told = ", ".join(f"{one:.1f}" for one in seconds)
    return (
        f"{name}: {compared} cases, {len(doubtful)} for the oracle; {told} s each,"
        f" {ready_s:.1f} s once for all candidates"
    )


@one_line_errors()
def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lab.measure_sweep",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="default: all")
    parser.add_argument("--device", default="cuda", help="cuda or cuda:N")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args(words)
    device = pick_device(asked.device)
    for name in asked.tasks or task_names():
        print(measure(name, device, asked.repeats), flush=True)


if __name__ == "__main__":
    main()
