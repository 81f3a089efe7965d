"""Does a baseline's result depend on the order of atomics, and the oracle know one order alone?

No GPU promises an order. The virtual GPU has one, so an oracle that demands it would pass there,
and refuse kernels that are as good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.check.compare import compare
from astra_chat.tools.policy.ptx_audit import has_atomics
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.types import Wrong

MAX_BYTES = 2**20
"""Larger cases tell no more, and take the NumPy engine long."""


def wrong_in_another_order(runner: Runner, oracle_cases: Sequence[OracleCase]) -> Wrong | None:
    """What is wrong on the first of these cases, on which the baseline is right, when atomics are
    served in reverse; None on a real GPU, where they come in any order anyway.

    What keeps a call from ending is no statement about the result, and ends the search.
    """
    task = runner.task
    small = [t for t in oracle_cases if task.least_bytes(t.case) <= MAX_BYTES]
    if runner.device.kind != "virtual" or not small:
        return None
    built = build_all(task, [task.baseline], runner.device, runner.stop)[0]
    if not isinstance(built, Build) or not has_atomics(built.ptx.read_text()):
        return None
    for run in replace(runner, engine="numpy", descending=True).run(built, small, "check"):
        if not isinstance(run, CaseRun):
            return None
        if isinstance(verdict := compare(task, run), Wrong):
            return verdict
    return None
