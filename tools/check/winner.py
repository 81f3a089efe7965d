"""The sanitize step: what a winner on a real GPU has to pass before it is timed and confirmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.compute_sanitizer import SITES, Found, sanitize_cuda
from astra_chat.tools.check.sanitizer_cases import covering
from astra_chat.tools.check.shipped_launcher import launches_otherwise
from astra_chat.tools.check.virtual_gpu_sanitizer import Watched, sanitize_virtual
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.types import Case, Refused, Unsafe


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
    timed ones too, then the virtual GPU's sanitizer. That warps come to a barrier by different
    instructions (`SITES`) is none where the virtual GPU, which follows them, finds nothing on all
    cases that launch what the timed ones launch.

    `on_tool`: how many of Compute Sanitizer's tools are done. Raises MissingDependency without
    them, and Cancelled.
    """
    by_size = sorted(runner.task.check, key=runner.task.least_bytes, reverse=True)
    reaching = covering(runner, build, timed)
    small = oracle_cases(
        [*{(case.dtype, *case.types.values()): case for case in by_size}.values(), *reaching]
    )
    others = [case for case in timed if case not in reaching]
    large = oracle_cases(others)
    # It measures the host's time, so nothing runs beside it.
    if otherwise := launches_otherwise(runner, build, [*small, *large], baseline):
        return otherwise
    ctrl_c = runner.stop.on_ctrl_c  # also while the pool waits for its threads
    with ctrl_c(), ThreadPoolExecutor() as pool, ctrl_c():
        reached = [*reaching, *sorted(others, key=runner.task.least_bytes)]
        virtual = pool.submit(sanitize_virtual, runner, build, oracle, check, reached)
        fault = sanitize_cuda(runner, build, small, large, on_tool, baseline)
        if fault and not _two_sites(fault):
            return fault
        seen = virtual.result()
    if not isinstance(seen, Watched):
        return seen
    if not fault or {case.label for case in reaching} <= seen.labels:
        return None
    return fault


def _two_sites(fault: Found) -> bool:
    return isinstance(fault, Unsafe) and fault.what.startswith(f"synccheck: {SITES}")
