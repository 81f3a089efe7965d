"""Failures of a run: what recorder and runner process report, as a value; names of CUDA errors."""

from __future__ import annotations

from astra_chat.tools.policy.module_state import SHARED_STATE
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.types import Case, Crashed, Finding, Refused, TimedOut, Unsafe, Unsupported

Failure = Refused | Crashed | TimedOut | Unsafe | Unsupported


def failure_of(report: CaseReport, case: Case) -> Failure | None:
    """What a runner process reported of one call, where that failed."""
    if report.unsupported:
        return Unsupported(**report.unsupported.model_dump())
    if report.unsafe:
        return Unsafe(case=case, **report.unsafe.model_dump())
    if report.changed:
        what = (
            f"a call writes to module variable {report.changed}, even if it restores the value"
            f" afterwards: {SHARED_STATE}"
        )
        return Refused(gate="plan", findings=(Finding(line=1, what=what),))
    if report.status:
        message = f"the launcher returned CUDA error {report.status}"
        if name := cuda_error_name(report.status):
            message += f" ({name})"
        return Crashed(case=case, message=message)
    return None


def cuda_error_name(status: int) -> str:
    """Names of the errors that kernels meet in practice; the numbers are CUDA's."""
    return {
        1: "invalid value",
        2: "out of memory",
        9: "invalid configuration",
        98: "invalid device function",
        209: "no kernel image for this device",
        700: "illegal address",
        701: "launch out of resources",
        702: "launch timeout",
        710: "assert",
        716: "misaligned address",
        719: "launch failure",
        801: "not supported",
    }.get(status, "")


def last_line(output: str) -> str:
    """The last line that a process printed, or that there is none."""
    lines = [line for line in output.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"
