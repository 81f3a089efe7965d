"""The virtual GPU's sanitizer on a candidate that is to be timed on a real GPU.

It sees what NVIDIA's tools do not: races between blocks, arguments that may only be read and are
put back, launches that do not wait for the work ahead. It runs the same source on the CPU, by
launch plans, and what its launcher does beside launching is refused. Only that and an unsafe kernel
count here: what the virtual GPU lacks, or does not end in time, is no fault of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, Refused, Unsafe

MAX_BYTES = 2**17
"""Most bytes moved by a check case that is run: there are many."""
MAX_REACHING_BYTES = 2**27
"""Most bytes moved, together, by the cases that reach what timed plans launch and by timed ones:
some 10 s of a CPU, beside Compute Sanitizer, which takes longer."""


@dataclass(frozen=True)
class Watched:
    """Nothing was found on the cases with these labels."""

    labels: frozenset[str]


def sanitize_virtual(
    runner: Runner,
    candidate: Build,
    oracle: Oracle,
    check: Sequence[Case],
    reaching: Sequence[Case] = (),
) -> Unsafe | Refused | Watched:
    """The first fault that it finds on the small check cases and on those `reaching` what is timed,
    in their order, or what it watched: all up to one that it could not run. Raises Cancelled."""
    small = [case for case in check if runner.task.least_bytes(case) <= MAX_BYTES]
    small += _together(runner.task, reaching)
    other = runner.on_virtual_gpu()
    built = runner.virtual_build(candidate)
    if not isinstance(built, Build):
        return Watched(frozenset())
    seen = set[str]()
    for run in other.run(built, oracle.oracle_cases(small, runner.stop), "check"):
        if isinstance(run, Unsafe):
            return run.model_copy(update={"what": f"{run.what} (found on the virtual GPU)"})
        if isinstance(run, Refused):
            return run
        if not isinstance(run, CaseRun):
            break
        seen.add(run.oracle_case.case.label)
    return Watched(frozenset(seen))


def _together(task: Task, cases: Sequence[Case]) -> Iterator[Case]:
    """Yields the first cases, which together move up to MAX_REACHING_BYTES."""
    left = MAX_REACHING_BYTES
    for case in cases:
        left -= task.least_bytes(case)
        if left < 0:
            return
        yield case
