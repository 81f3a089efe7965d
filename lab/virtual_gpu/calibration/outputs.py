"""What the three tasks' kernels compute on this machine's GPU and on the virtual one, bit for bit.

    python -m lab.virtual_gpu.calibration.outputs [MAX_ELEMENTS]

For every candidate of the recorded runs on an H200, baselines among them, and every check and bench
case of at most so many elements: how many results of each width are equal.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.buffer_layout import Bytes, Mask
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.types import ITEM_BYTES, Case, Device
from lab.virtual_gpu.calibration.tasks import RUNS, recorded

Outputs = dict[str, tuple[Bytes, Mask | None]]
"""The bytes of each written argument, and which of them were written; None: all."""


def outputs(
    task: Task, device: Device, source: str, oracle_cases: list[OracleCase]
) -> list[Outputs]:
    """Outputs case by case: on the virtual GPU a launch over its budget runs a sample of its
    blocks."""
    built = build(task, source, device)
    assert isinstance(built, Build), built
    found = []
    for run in Runner(task, device).run(built, oracle_cases, "check"):
        assert isinstance(run, CaseRun), run
        written = (arg for arg in task.args if arg.written)
        found.append({arg.name: (run.after(arg)[0], run.coverage(arg)) for arg in written})
    assert len(found) == len(oracle_cases)
    return found


def counted(
    task: Task, cases: Sequence[Case], theirs: Sequence[Outputs], ours: Sequence[Outputs]
) -> tuple[Counter[str], Counter[str]]:
    """Numbers of results that ran on both, by width, and of those that are equal."""
    results, equal = Counter[str](), Counter[str]()
    for case, a, b in zip(cases, theirs, ours, strict=True):
        for arg in (arg for arg in task.args if arg.written):
            width = ITEM_BYTES[arg.dtype_of(case)]
            x, y = (bits[arg.name][0].view(f"u{width}") for bits in (a, b))
            ran = b[arg.name][1]
            there = np.ones(x.size, bool) if ran is None else ran.reshape(-1, width).all(axis=1)
            results[f"{8 * width}-bit"] += int(np.count_nonzero(there))
            equal[f"{8 * width}-bit"] += int(np.count_nonzero(there & (x == y)))
    return results, equal


def compare(name: str, most: int) -> None:
    task = find_task(name)
    devices = pick_device("cuda", None), pick_device("virtual", "h200")
    oracle = Oracle(task)
    cases = [
        c
        for c in (*task.check, *(case for case, _ in task.bench))
        if math.prod(c.dims.values()) <= most
    ]
    oracle_cases = list(oracle.oracle_cases(cases, Stop()))
    sources = [task.baseline, *(source for source, _ in recorded(task))]
    for number, source in enumerate(sources):
        theirs, ours = (outputs(task, device, source, oracle_cases) for device in devices)
        results, equal = counted(task, cases, theirs, ours)
        shares = ", ".join(
            f"{equal[w]} of {results[w]} {w} ({equal[w] / results[w]:.5%})" for w in results
        )
        print(f"{name} {'baseline' if not number else f'candidate {number}'}: {shares}", flush=True)
    oracle.close()


def main(most: int = 2**20) -> None:
    for name in RUNS:
        compare(name, most)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
