"""What is judged is what is shipped: on the GPU the real launcher launches what its plans say.

Plans are recorded without a GPU. So for a winner the launcher runs with NVIDIA's runtime, in a
walled process of its own, and what it puts into a CUDA graph is compared with the plan
(tools/runners/cuda_capture.py). The host time of a call is compared with the baseline's: replays
of a graph see nothing of the host, so a launcher could work there at no cost. Its code runs in the
process that reports: a hostile launcher could hide a difference there, but nothing that was checked
or timed depends on it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from astra_chat.tools.build.hosted import hosted_library
from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.run.failures import Failure, failure_of, last_line
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import (
    BadReport,
    CaptureRequest,
    CaseReport,
    Started,
    parsed,
)
from astra_chat.tools.run.requests import Batch
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout, Worker, signal_name
from astra_chat.tools.types import Case, Crashed, Finding, Refused, TimedOut

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
