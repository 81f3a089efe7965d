"""The sanitize step: what a winner on a real GPU has to pass before it is timed and confirmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.compute_sanitizer import Found, sanitize_cuda
from astra_chat.tools.check.sanitizer_cases import covering
from astra_chat.tools.check.shipped_launcher import launches_otherwise
from astra_chat.tools.check.virtual_gpu_sanitizer import sanitize_virtual
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.types import Case, Refused


def winner_fault(
    runner: Runner,
    build: Build,
    baseline: Build,
    oracle: Oracle,
    check: Sequence[Case],
    timed: Sequence[Case],
    oracle_cases: Callable[[Sequence[Case]], list[OracleCase]],
    on_tool: Callable[[int], None],
) -> Found | Refused | None:
    """The first fault: the real launcher beside its plans, Compute Sanitizer on the smallest check
    case of each dtype and on small cases that launch what the timed ones launch, memcheck on the
    timed ones too, then the virtual GPU's sanitizer.

    `on_tool`: how many of Compute Sanitizer's tools are done. Raises MissingDependency without
    them, and Cancelled.
    """
    by_size = sorted(runner.task.check, key=runner.task.least_bytes, reverse=True)
    reaching = covering(runner, build, timed)
    small = oracle_cases(
        [*{(case.dtype, *case.types.values()): case for case in by_size}.values(), *reaching]
    )
    large = oracle_cases([case for case in timed if case not in reaching])
    # It measures the host's time, so nothing runs beside it.
    if fault := launches_otherwise(runner, build, [*small, *large], baseline):
        return fault
    with ThreadPoolExecutor() as pool, runner.stop.on_ctrl_c():
        virtual = pool.submit(sanitize_virtual, runner, build, oracle, [*check, *reaching])
        return sanitize_cuda(runner, build, small, large, on_tool, baseline) or virtual.result()
