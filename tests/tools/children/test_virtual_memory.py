"""Arguments on the virtual GPU: closed to host code, open to kernels and copies, given back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.run import runner as module
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import CaseRun, Runner
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.types import Case, Crashed

ATTACKS = Path(__file__).parents[2] / "attacks"
TASK = load_task(ATTACKS / "tasks" / "row_sum")
DEVICE = virtual_device("h200")
LARGE = Case(dims={"rows": 1024, "n": 16384}, dtype="float32", seed=1)
"""64 MiB."""


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    made = Oracle(TASK)
    yield made
    made.close()


def outcomes(oracle: Oracle, source: str, cases: list[Case]) -> list[object]:
    built = build(TASK, source, DEVICE)
    assert isinstance(built, Build)
    runs = Runner(TASK, DEVICE).run(built, oracle.oracle_cases(cases, Stop()), "check")
    return list(runs)


def test_host_code_that_reads_an_argument_dies_and_is_told_why(oracle: Oracle) -> None:
    source = (ATTACKS / "kernels" / "x4_host_peek.cu").read_text()
    (found,) = outcomes(oracle, source, [Case(dims={"rows": 3, "n": 5}, dtype="float32", offset=3)])
    assert isinstance(found, Crashed) and "SIGSEGV" in found.message
    assert "host code reads device memory: x of 72 bytes, offset 12" in found.message


def test_what_is_done_with_is_given_back(oracle: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may hold 1 GiB makes ten calls that hold 64 MiB each, three times over."""
    monkeypatch.setattr(module, "VIRTUAL_MEMORY_BYTES", 2**30)
    kernel = """
    #include <cstdint>
    #include <cuda_runtime.h>
    __global__ void nothing() {}
    extern "C" cudaError_t row_sum(void*, const void*, int64_t, int64_t, int, cudaStream_t s) {
      nothing<<<1, 1, 0, s>>>();
      return cudaGetLastError();
    }
    """
    found = outcomes(oracle, kernel, 10 * [LARGE])
    assert [type(one) for one in found] == 10 * [CaseRun]
