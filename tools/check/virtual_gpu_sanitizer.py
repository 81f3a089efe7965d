"""The virtual GPU's sanitizer on a candidate that is to be timed on a real GPU.

It finds what NVIDIA's tools do not: races between blocks, host code that writes device memory,
read-only arguments that are changed and restored, launches that do not wait for the work before
them. It runs the same source on the CPU. Only a finding counts: an unsupported instruction or a
timeout is not the kernel's fault.
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
    for run in other.run(built, oracle.oracle_cases(small, runner.stop), "check"):
        if isinstance(run, Unsafe):
            return run.model_copy(update={"what": f"{run.what} (found on the virtual GPU)"})
        if not isinstance(run, CaseRun):
            return None
    return None
