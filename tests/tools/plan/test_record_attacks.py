"""Launchers that no plan can hold, that break the recorder, or forge its report: one line each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.plan import process
from astra_chat.tools.plan.model import MAX_FACTS, LaunchPlan
from astra_chat.tools.types import Crashed, Refused, TimedOut

Recorded = tuple[LaunchPlan, ...] | Refused | Crashed | TimedOut
Record = Callable[[str], Recorded]


REFUSED = {
    "forks": "system call clone",
    "starts_thread": "system call",
    "writes_file": "system call openat",
    "reads_auxv": "system call openat",
    "reads_clock": "system call clock_gettime",
    "reads_counter": "system call clock_gettime",
    "counts_calls": "its grid differs between two calls with the same arguments",
    "counts_in_parameter": "parameter 3 of kernel _Z5plainPfPKfi differs between two calls",
    "hashes_address": "parameter 3 of kernel _Z5plainPfPKfi depends on the addresses",
    "grid_from_address": "its grid depends on the addresses",
    "pointer_difference": "parameter 1 of kernel _Z6numbermPf depends on the addresses",
    "split_pointer": "parameter 1 of kernel _Z6halvesjjPf depends on the addresses",
    "shifted_pointer": "parameter 1 of kernel _Z6numbermPf depends on the addresses",
    "outside_pointer": "parameter 1 of kernel _Z6numbermPf depends on the addresses",
    "far_before_pointer": "parameter 1 of kernel _Z6numbermPf depends on the addresses",
    "stack_address": "parameter 1 of kernel _Z6numbermPf differs between two calls",
    "stream_handle": "parameter 1 of kernel _Z6numbermPf",
    "allocates": "cudaMalloc: ",
    "own_stream": "cudaStreamCreate: ",
    "other_stream": "a stream other than the caller's",
    "other_stream_memset": "a stream other than the caller's",
    "makes_event": "cudaEventCreate: ",
    "host_function": "cudaLaunchHostFunc: ",
    "host_copy": "a copy from or to host memory: ",
    "waits": "cudaStreamSynchronize: ",
    "asks_clusters": "cudaOccupancyMaxActiveClusters: ",
    "asks_driver": "cudaGetDriverEntryPoint of cuMemAlloc_v2: ",
    "asks_bus": "cudaDeviceGetAttribute of attribute 33: ",
    "clears_variable": "a launch, memset or copy writes to module variable table: two calls",
    "copies_to_variable": "a launch, memset or copy writes to module variable table: two calls",
    "hands_over_variable": "a launch, memset or copy writes to module variable table: two calls",
    "many_launches": "more than 256 launches",
    "large_launches": "more than 65,536 parameter bytes in one call",
    "hides_error": "error 1 (invalid argument), which the launcher neither",
}


@pytest.mark.parametrize("entry", REFUSED)
def test_what_no_plan_can_hold_is_refused_by_name(recorded: Record, entry: str) -> None:
    outcome = recorded(entry)
    assert isinstance(outcome, Refused) and outcome.gate == "plan"
    (finding,) = outcome.findings
    assert REFUSED[entry] in finding.what and "\n" not in finding.what


def test_forged_facts_are_bounded(recorded: Record) -> None:
    plans = recorded("forged_facts")
    assert isinstance(plans, tuple) and len(plans[0].facts) == MAX_FACTS
    assert plans[1].kernels[0].grid == (5, 1, 1)


def test_a_refusal_names_the_line_of_the_kernel(recorded: Record, built: Build) -> None:
    outcome = recorded("pointer_difference")
    assert isinstance(outcome, Refused)
    lines = (built.folder / "kernel.cu").read_text().splitlines()
    assert "__global__ void number(" in lines[outcome.findings[0].line - 1]


CRASHED = {
    "null_dereference": "killed by SIGSEGV",
    "aborts": "killed by SIGABRT",
    "leaves": "process ended early, exit status 0",
    "prints": "printed more than 32 MiB",
    "reads_device": "host code reads device memory: input, offset 12",
    "writes_device": "host code writes to device memory: out, offset 4",
    "memset_outside": "returned CUDA error 1 (invalid argument)",
    "memset_before": "returned CUDA error 1 (invalid argument)",
    "too_many_threads": "65 threads in a block, but __launch_bounds__ allows at most 64",
    "forged_kernel": "the recorder did not write",
    "forged_grid": "the recorder did not write",
    "forged_block": "the recorder did not write",
    "forged_shared": "the recorder did not write",
    "forged_parameters": "the recorder did not write",
    "forged_field": "the recorder did not write",
    "forged_memset": "the recorder did not write",
    "forged_garbage": "the recorder did not write",
    "forged_twice": "the recorder did not write",
    "forged_flood": "",
}


@pytest.mark.parametrize("entry", CRASHED)
def test_a_launcher_that_breaks_the_recorder_is_one_clear_line(
    recorded: Record, entry: str
) -> None:
    outcome = recorded(entry)
    assert isinstance(outcome, Crashed)
    assert CRASHED[entry] in outcome.message and "\n" not in outcome.message


def test_a_hang_runs_into_the_limit(recorded: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "RECORD_TIMEOUT_S", 0.3)
    outcome = recorded("hangs")
    assert isinstance(outcome, TimedOut) and outcome.step == "plan"
