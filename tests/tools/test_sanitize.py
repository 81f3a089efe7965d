"""Compute Sanitizer's logs, read; under `-m gpu` its four tools over kernels with planted bugs."""

from __future__ import annotations

import pytest

from astra_chat.tools.build import Build, build
from astra_chat.tools.devices import pick_device
from astra_chat.tools.oracle import Oracle
from astra_chat.tools.process import Stop
from astra_chat.tools.runner import Runner
from astra_chat.tools.sanitize import first_finding, sanitize_cuda
from astra_chat.tools.tasks import find_task
from astra_chat.tools.types import Case, TimedOut, Unsafe

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at void silu<float>(T1 *, const T1 *, long, long)+0x2a0 in kernel.cu:15
=========     by thread (31,0,0) in block (2,0,0)
=========     Access at 0x7f3e0a200a00 is out of bounds
=========     Saved host backtrace up to driver entry point at kernel launch time
=========
========= ERROR SUMMARY: 1 error
"""
RACECHECK = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at void k(float *)+0x40 in kernel.cu:7
=========     and Read access at void k(float *)+0x60 in kernel.cu:9 [128 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
TASK = find_task("silu_and_mul")


def test_a_finding_is_named_with_its_line_and_thread() -> None:
    what, where = first_finding(MEMCHECK) or ("", "")
    assert what == "Invalid __global__ write of size 4 bytes"
    assert where == "void silu<float>, kernel.cu:15, by thread (31,0,0) in block (2,0,0)"


def test_both_sides_of_a_race_are_named() -> None:
    what, where = first_finding(RACECHECK) or ("", "")
    assert (
        what.startswith("Error: Race reported")
        and where == "void k, kernel.cu:7, void k, kernel.cu:9"
    )


def test_a_clean_log_has_no_finding() -> None:
    clean = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
    assert first_finding(clean) is None


def sanitized(source: str) -> Unsafe | TimedOut | None:
    device = pick_device("cuda")
    built = build(TASK, source, device)
    assert isinstance(built, Build), built
    oracle = Oracle(TASK)
    truths = oracle.truths([Case(dims={"tokens": 3, "d": 264}, dtype="float16")], Stop())
    try:
        return sanitize_cuda(Runner(TASK, device), built, truths)
    finally:
        oracle.close()


@pytest.mark.gpu
def test_an_honest_kernel_passes_all_four(scalar: str) -> None:
    assert sanitized(scalar) is None


@pytest.mark.gpu
def test_a_write_past_the_end_is_found(scalar: str) -> None:
    bad = scalar.replace("  out[i] =", "  out[i + 4096] = T(0.f);\n  out[i] =")
    outcome = sanitized(bad)
    assert (
        isinstance(outcome, Unsafe) and "memcheck" in outcome.what and "kernel.cu" in outcome.where
    )


@pytest.mark.gpu
def test_a_race_is_found(scalar: str) -> None:
    racy = scalar.replace(
        "  out[i] =",
        "  __shared__ volatile float tile[256];\n  tile[threadIdx.x] = gate;\n"
        "  if (tile[(threadIdx.x + 64) % 256] == 12345.f) return;\n  out[i] =",
    )
    outcome = sanitized(racy)
    assert isinstance(outcome, Unsafe) and "racecheck" in outcome.what
