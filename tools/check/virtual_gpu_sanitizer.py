"""The virtual GPU's sanitizer on a candidate that a real GPU is to be measured with.

It sees what NVIDIA's tools do not: races between blocks, work that host code does on device memory,
arguments that may only be read and are put back, launches that do not wait for the work ahead. It
runs the same source on the CPU, and only its word that something is unsafe counts here: what it
lacks, or does not end in time, is no fault of a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import CaseRun, Runner
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.types import Case, Unsafe

MOST_BYTES = 2**17
"""Larger cases would take the CPU seconds each."""


def second_opinion(
    runner: Runner, candidate: Build, oracle: Oracle, cases: Sequence[Case]
) -> Unsafe | None:
    """The first fault that it finds on the small ones of these cases. Raises Cancelled."""
    small = [case for case in cases if runner.task.least_bytes(case) <= MOST_BYTES]
    device = virtual_device(runner.device.spec)
    other = Runner(runner.task, device, runner.stop, runner.engine, seed=runner.seed)
    source = (candidate.folder / "kernel.cu").read_text()
    built = build(runner.task, source, device, runner.stop)
    if not isinstance(built, Build):
        return None
    for run in other.run(built, oracle.truths(small, runner.stop), "check"):
        if isinstance(run, Unsafe):
            return run.model_copy(update={"what": f"{run.what} (found on the virtual GPU)"})
        if not isinstance(run, CaseRun):
            return None
    return None
