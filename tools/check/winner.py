"""The sanitize step: what a winner on a real GPU has to pass before it is timed and confirmed.

A sanitizer slows a kernel by a factor of ten to a thousand, so it is given small cases. A launcher
chooses kernels by size: what it launches on the smallest case may be nothing of what is timed, and
a race between blocks or warps needs several of them. So the timed cases are shrunk, dim by dim and
together, the launcher is recorded on all of them, and for each kernel the smallest case is taken
that launches it as the timed plans do.

The virtual GPU's sanitizer sees what NVIDIA's tools do not: races between blocks, arguments that
may only be read and are put back, launches that do not wait for the work ahead. It runs the same
source on the CPU, by launch plans, and what its launcher does beside launching is refused. Only
that and an unsafe kernel count here: what the virtual GPU lacks, or does not end in time, is no
fault of a kernel.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import prod
from pathlib import Path

from astra_chat.tools.build.hosted import hosted_library
from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.calls import read_result
from astra_chat.tools.check.compute_sanitizer import SITES, Found, sanitize_cuda
from astra_chat.tools.check.hidden_cases import unique
from astra_chat.tools.plan.model import KernelNode, LaunchPlan
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure, failure_of, last_line
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.protocol import BadReport, CaptureRequest, CaseReport, Started, parsed
from astra_chat.tools.run.requests import Batch
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout, Worker, signal_name
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, Crashed, Finding, Refused, TimedOut, Unsafe

WARP_THREADS = 32
MAX_DIMS = 4
"""Dims of a task that are shrunk in all combinations; of more, each by itself and all together."""
MAX_BYTES = 2**17
"""Most bytes moved by a check case that is run: there are many."""
MAX_REACHING_BYTES = 2**27
"""Most bytes moved, together, by the cases that reach what timed plans launch and by timed ones:
some 10 s of a CPU, beside Compute Sanitizer, which takes longer."""

Way = tuple[str, bool, bool, bool]
"""A kernel, and whether it is launched in clusters, programmatically and cooperatively."""


@dataclass(frozen=True)
class Need:
    """A way in which timed plans launch a kernel."""

    way: Way
    several_blocks: bool
    several_warps: bool


@dataclass(frozen=True)
class Watched:
    """Nothing was found on the cases with these labels."""

    labels: frozenset[str]


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


def covering(runner: Runner, build: Build, timed: Sequence[Case]) -> list[Case]:
    """For each kernel of the timed cases' plans the smallest case that launches it with several
    blocks and several warps where the timed plans do, smallest first; of the check cases, shrunk
    timed cases and the timed cases themselves.

    Cases on which the launcher fails are left out: the check judges those that it draws. Raises
    what recording raises.
    """
    task = runner.task
    cases = [*task.check, *chain.from_iterable(_shrunk(task, case) for case in timed), *timed]
    small_first = sorted(unique(cases), key=task.least_bytes)
    wanted = _needs(_plans(runner, build, timed))
    chosen: list[Case] = []
    for plan in _plans(runner, build, small_first):
        met = {need for need in wanted if any(_meets(need, node) for node in plan.kernels)}
        if met:
            chosen.append(plan.case)
            wanted -= met
    return chosen


def _plans(runner: Runner, build: Build, cases: Sequence[Case]) -> list[LaunchPlan]:
    return [plan for plan in runner.record(build, cases) if isinstance(plan, LaunchPlan)]


def _needs(plans: Sequence[LaunchPlan]) -> set[Need]:
    """One for each kernel and way to launch it."""
    nodes = [node for plan in plans for node in plan.kernels]
    several_blocks = {_way(node) for node in nodes if _blocks(node) > 1}
    several_warps = {_way(node) for node in nodes if prod(node.block) > WARP_THREADS}
    ways = set(map(_way, nodes))
    return {Need(way, way in several_blocks, way in several_warps) for way in ways}


def _way(node: KernelNode) -> Way:
    return node.kernel, node.cluster is not None, node.programmatic, node.cooperative


def _meets(need: Need, node: KernelNode) -> bool:
    blocks, warps = _blocks(node) > 1, prod(node.block) > WARP_THREADS
    return (
        _way(node) == need.way
        and (blocks or not need.several_blocks)
        and (warps or not need.several_warps)
    )


def _blocks(node: KernelNode) -> int:
    """Returns the number of blocks of a launch, or of its clusters where it has them."""
    return prod(node.grid) // prod(node.cluster or (1,))


def _shrunk(task: Task, case: Case) -> Iterator[Case]:
    """The case with some dims at a half, a quarter, ... of their extents, as far as is legal."""
    names = list(case.dims)
    few = len(names) <= MAX_DIMS
    sizes = range(1, len(names) + 1) if few else (1, len(names))
    for some in chain.from_iterable(combinations(names, size) for size in sizes):
        last, smaller = case, _halved(task, case, some)
        while smaller != last:
            if task.allows(smaller):
                yield smaller
            last, smaller = smaller, _halved(task, smaller, some)


def _halved(task: Task, case: Case, names: Sequence[str]) -> Case:
    """Extents rounded up to legal steps, none below its least."""
    dims = dict(case.dims)
    for name in names:
        dims[name] = task.dims[name].above(dims[name] // 2, case.dtype)
    return case.model_copy(update={"dims": dims})


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
        if isinstance(run, CaseRun):
            run = read_result(runner.task, run) or run
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


# What is judged is what is shipped: on the GPU the real launcher launches what its plans say.
#
# Plans are recorded without a GPU. So for a winner the launcher runs with NVIDIA's runtime, in a
# walled process of its own, and what it puts into a CUDA graph is compared with the plan
# (tools/runners/cuda_capture.py). The host time of a call is compared with the baseline's: replays
# of a graph see nothing of the host, so a launcher could work there at no cost. Its code runs in
# the process that reports: a hostile launcher could hide a difference there, but nothing that was
# checked or timed depends on it.

CHILD = "astra_chat.tools.runners.cuda_capture"
CAPTURE_TIMEOUT_S = 60.0
MAX_HOST_US = 50.0
"""What a call may keep the host busy longer than the baseline's: as long as ten more launches."""
TRIES = 3
"""Times that a case on which it was longer is measured again, the baseline right after it: the
machine may have been busy."""


def launches_otherwise(
    runner: Runner, build: Build, oracle_cases: Sequence[OracleCase], baseline: Build
) -> Failure | None:
    """The first case on which the launcher parts from its plan or keeps the host busy, as Refused,
    or how it failed; None where it does what its plans say.

    Raises Cancelled, and MissingDependency without a linker.
    """
    host_us = _host_us(runner, build, oracle_cases)
    if not isinstance(host_us, list):
        return host_us
    usual = _baseline_host_us(runner, baseline, oracle_cases)
    if not isinstance(usual, list):
        return usual
    slow = _slow(zip(oracle_cases, host_us, usual, strict=True))
    for _ in range(TRIES):
        if not slow:
            return None
        cases = [oracle_case for oracle_case, *_ in slow]
        again = _host_us(runner, build, cases)
        if not isinstance(again, list):
            return again
        beside = _host_us(runner, baseline, cases)
        if not isinstance(beside, list):
            return beside
        slow = _slow(
            (t, min(own_us, own), max(baseline_us, base))
            for (t, own_us, baseline_us), own, base in zip(slow, again, beside, strict=True)
        )
    return _busy(*slow[0]) if slow else None


def _slow(
    timed: Iterable[tuple[OracleCase, float, float]],
) -> list[tuple[OracleCase, float, float]]:
    """Cases on which a call keeps the host busy too long; each with its time and the baseline's."""
    return [one for one in timed if one[1] > one[2] + MAX_HOST_US]


def _busy(oracle_case: OracleCase, own_us: float, baseline_us: float) -> Refused:
    times = f"{own_us:,.0f} us, a call of the baseline for {baseline_us:,.0f} us"
    return _refused(f"a call keeps the host busy for {times}", oracle_case.case)


def _baseline_host_us(
    runner: Runner, baseline: Build, oracle_cases: Sequence[OracleCase]
) -> list[float] | Failure:
    """Returns the host time of a call of the baseline on each case, in us; its launcher is captured
    once for all seeds of a case."""
    keys = [
        (baseline.folder, t.case.model_copy(update={"seed": 0}).model_dump_json())
        for t in oracle_cases
    ]
    missing = {
        key: t for key, t in zip(keys, oracle_cases, strict=True) if key not in runner.known.host_us
    }
    if missing:
        host_us = _host_us(runner, baseline, list(missing.values()))
        if not isinstance(host_us, list):
            return host_us
        runner.known.host_us |= zip(missing, host_us, strict=True)
    return [runner.known.host_us[key] for key in keys]


def _host_us(
    runner: Runner, build: Build, oracle_cases: Sequence[OracleCase]
) -> list[float] | Failure:
    """Host time of a call on each case, in us, where all captured calls equal their plans."""
    calls = runner.planned(build, oracle_cases)
    if not isinstance(calls, list):
        return calls
    library, host_us = hosted_library(build), list[float]()
    with tempfile.TemporaryDirectory(prefix="astra-run-") as folder:
        request = runner.request(Batch(build, calls, "check"), Path(folder), build.cubin)
        sandbox = runner.sandbox(build, oracle_cases, Path(folder))
        sandbox = replace(sandbox, read=(*sandbox.read, library.parent))
        with runner.leased("check", alone=False), Worker(CHILD, sandbox=sandbox) as worker:
            try:
                asked = request.extended(CaptureRequest, library=library)
                fields = asked.model_dump(mode="json")
                worker.ask(fields, CAPTURE_TIMEOUT_S, runner.stop)
                for report in map(parsed, worker.reports()):
                    if isinstance(report, Started) or report.index != len(host_us):
                        continue
                    if fault := _found(report, oracle_cases[len(host_us)].case):
                        return fault
                    host_us.append(_host_time(report))
                end = worker.finish()
            except StepTimeout:
                return TimedOut(step="plan", limit_s=CAPTURE_TIMEOUT_S)
            except StepMemory:
                message = "its launcher used more than half of this machine's memory"
                return Crashed(case=oracle_cases[0].case, message=message)
            except BadReport as error:
                message = f"its process sent a report that the runner did not write: {error}"
                return Crashed(case=oracle_cases[0].case, message=message)
    if len(host_us) < len(oracle_cases):
        message = f"the launcher was {signal_name(end.returncode)}; {last_line(end.output)}"
        return Crashed(case=oracle_cases[len(host_us)].case, message=message)
    return host_us


def _host_time(report: CaseReport) -> float:
    if report.host_us is None:
        raise BadReport("the host time of a call is missing")
    return report.host_us


def _found(report: CaseReport, case: Case) -> Failure | None:
    if report.parts:
        return _refused(
            f"on a GPU, the launcher does not follow its launch plan: {report.parts}", case
        )
    return failure_of(report, case)


def _refused(what: str, case: Case) -> Refused:
    return Refused(gate="plan", findings=(Finding(line=1, what=f"{what} (case {case.label})"),))
