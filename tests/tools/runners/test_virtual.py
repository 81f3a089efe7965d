"""The runner process of the virtual GPU: no host code of a candidate, alignment, memory, PDL."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.compare import compare
from astra_chat.tools.run import runner as module
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task, load_task
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.types import Case, Crashed, Refused, Unsafe, Unsupported, Wrong
from astra_chat.tools.virtual_gpu.adapter import Engine
from lab.attack_kernels import kernels

ATTACKS = Path(__file__).parents[2] / "attacks"
TASK = load_task(ATTACKS / "tasks" / "row_sum")
DEVICE = virtual_device("h200")
LARGE = Case(dims={"rows": 1024, "n": 16384}, dtype="float32", seed=1)
"""64 MiB."""
SMALL = Case(dims={"rows": 3, "n": 5}, dtype="float32", offset=3)
HEAD = """
#include <cstdint>
#include <cuda_runtime.h>
"""
SIGNATURE = """
extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t, int,
                               cudaStream_t stream)"""


def outcomes(
    oracle: Oracle, source: str, cases: list[Case], engine: Engine = "auto"
) -> list[object]:
    built = build(TASK, source, DEVICE)
    assert isinstance(built, Build)
    runs = Runner(TASK, DEVICE, engine=engine).run(
        built, oracle.oracle_cases(cases, Stop()), "check"
    )
    return list(runs)


@pytest.mark.second_tier
def test_host_code_that_reads_an_argument_dies_in_the_recorder(oracle: Oracle) -> None:
    source = kernels("attacks")["x4_host_peek.cu"]
    (found,) = outcomes(oracle, source, [SMALL])
    assert isinstance(found, Crashed)
    assert "host code reads device memory: x, offset 0" in found.message


@pytest.mark.second_tier
def test_the_runner_s_process_never_loads_the_library(oracle: Oracle, tmp_path: Path) -> None:
    """A constructor runs where a library is loaded: in the recorder, which may not write."""
    mark = tmp_path / "loaded"
    source = (
        HEAD + "#include <fcntl.h>\n__global__ void nothing() {}\n"
        f'__attribute__((constructor)) static void mark() {{ open("{mark}", O_CREAT, 0600); }}\n'
        + SIGNATURE
        + "{ nothing<<<1, 1, 0, stream>>>(); return cudaGetLastError(); }"
    )
    (found,) = outcomes(oracle, source, [SMALL])
    assert not isinstance(found, CaseRun) and not mark.exists()


@pytest.mark.second_tier
def test_arguments_are_aligned_as_the_plan_was_recorded(oracle: Oracle) -> None:
    """What a launcher knows of an address, its remainder by 1,024, holds for the kernel too."""
    source = (
        HEAD
        + """
    __global__ void compare(float* out, const float* x, unsigned seen, int64_t rows) {
      const unsigned here = unsigned(size_t(x) % 1024) | unsigned(size_t(out) % 1024) << 16;
      for (int64_t i = threadIdx.x; i < rows; i += 32) out[i] = here == seen ? 1.f : 2.f;
    }
    """
        + SIGNATURE
        + """{
      const unsigned seen = unsigned(size_t(x) % 1024) | unsigned(size_t(out) % 1024) << 16;
      compare<<<1, 32, 0, stream>>>((float*)out, (const float*)x, seen, rows);
      return cudaGetLastError();
    }
    """
    )
    built = build(TASK, source, DEVICE)
    assert isinstance(built, Build)
    for run in Runner(TASK, DEVICE).run(
        built, oracle.oracle_cases([SMALL, LARGE], Stop()), "check"
    ):
        assert isinstance(run, CaseRun), run
        content = run.after(TASK.args[0])[0].view("float32")
        assert (content == 1.0).all()


@pytest.mark.second_tier
def test_a_programmatic_launch_that_never_waits_is_unsafe(oracle: Oracle) -> None:
    launch = """
      cudaLaunchAttribute early = {};
      early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      early.val.programmaticStreamSerializationAllowed = 1;
      cudaLaunchConfig_t config = {};
      config.gridDim = 1, config.blockDim = 32, config.stream = stream;
      config.attrs = &early, config.numAttrs = 1;
      return cudaLaunchKernelEx(&config, early_kernel, (float*)out, rows);
    """
    kernel = """
    __global__ void early_kernel(float* out, int64_t rows) {{
      {}
      for (int64_t i = threadIdx.x; i < rows; i += 32) out[i] = 0.f;
    }}
    """
    hasty, patient = (
        HEAD + kernel.format(first) + SIGNATURE + "{" + launch + "}"
        for first in ("", "cudaGridDependencySynchronize();")
    )
    (found,) = outcomes(oracle, hasty, [SMALL])
    assert isinstance(found, Unsafe) and "never waits" in found.what
    assert "early_kernel" in found.where
    assert [type(one) for one in outcomes(oracle, patient, [SMALL])] == [CaseRun]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("x[h] = x[h];", "between the rows of input"),
        ("if (threadIdx.x > 64) x[h] = x[h];", ""),
        ("x[0] += x[h];", ""),
        ("x[0] += x[(tokens - 1) * stride + h - 1];", ""),
        ("x[0] += x[(tokens - 1) * stride + h];", "input"),
    ],
)
@pytest.mark.second_tier
def test_padding_may_be_read_between_rows_and_not_written(body: str, said: str) -> None:
    """Behind the last row of a view there need be none."""
    fused = find_task("fused_add_rmsnorm")
    kernel = """
    __global__ void touch(volatile float* x, int64_t tokens, int64_t h, int64_t stride) {{ {} }}
    """
    launcher = (
        prototype(fused)
        + """ {
      touch<<<1, 1, 0, stream>>>(static_cast<float*>(input), tokens, h, input_stride);
      return cudaGetLastError();
    }"""
    )
    built = build(fused, HEAD + kernel.format(body) + launcher, DEVICE)
    assert isinstance(built, Build)
    case = Case(dims={"tokens": 3, "h": 5}, dtype="float32", pad=2)
    oracle = Oracle(fused)
    (found,) = Runner(fused, DEVICE).run(built, oracle.oracle_cases([case], Stop()), "check")
    oracle.close()
    if said:
        assert isinstance(found, Unsafe) and said in found.what, found
    else:
        assert isinstance(found, CaseRun), found


@pytest.mark.second_tier
def test_what_is_done_with_is_given_back(oracle: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may hold 1 GiB makes ten calls that hold 64 MiB each, three times over."""
    monkeypatch.setattr(module, "VIRTUAL_MEMORY_BYTES", 2**30)
    source = (
        HEAD
        + "__global__ void nothing() {}\n"
        + SIGNATURE
        + "{ nothing<<<1, 1, 0, stream>>>(); return cudaGetLastError(); }"
    )
    found = outcomes(oracle, source, 10 * [LARGE])
    assert [type(one) for one in found] == 10 * [CaseRun]


WRITES = {
    "calls": "__device__ unsigned calls; __device__ void note() { atomicAdd(&calls, 1u); }",
    "start": "__device__ float start[3] = {1, 2, 3}; __device__ void note() { start[2] += 1; }",
    "fixed": "__constant__ int fixed[4]; __device__ void note()"
    ' { asm volatile("red.global.add.u32 [%0], 1;" ::"l"(&fixed[1])); }',
    "$str": "__device__ void note() { __shared__ char* volatile text;"
    ' text = const_cast<char*>("abc"); text[1] += 1; }',
    # Set back before the call ends: the variables hold afterwards what they held before.
    "ticket": "__device__ unsigned ticket; __device__ void note()"
    " { atomicAdd(&ticket, 1u); __threadfence(); atomicExch(&ticket, 0u); }",
    "kept": "__device__ float kept; __device__ void note() { __shared__ float* volatile place;"
    " place = &kept; volatile float* p = place; const float old = *p; *p = 5; *p = old; }",
}


@pytest.mark.parametrize("name", WRITES)
def test_a_module_variable_that_a_call_writes_is_named(oracle: Oracle, name: str) -> None:
    source = (
        HEAD
        + WRITES[name]
        + "\n__global__ void k() { note(); }\n"
        + SIGNATURE
        + "{ k<<<1, 1, 0, stream>>>(); return cudaGetLastError(); }"
    )
    (found,) = outcomes(oracle, source, [SMALL])
    assert isinstance(found, Refused) and found.gate == "plan"
    assert f"writes to module variable {name}, even if" in found.findings[0].what


ADDS = (
    HEAD
    + """
    __global__ void k(float* out, int turns) {
      if (threadIdx.x == 0) atomicAdd(&out[blockIdx.x / 2], 1.f);
      for (int i = 0; i < turns; ++i) __syncthreads();
    }
    """
    + SIGNATURE
    + """{
      cudaMemsetAsync(out, 0, rows * 4, stream);
      k<<<unsigned(rows), 256, 0, stream>>>((float*)out, TURNS);
      return cudaGetLastError();
    }
    """
)
"""Blocks add to each other's results."""
MIDDLE = Case(dims={"rows": 1024, "n": 1024}, dtype="float32")


@pytest.mark.second_tier
def test_all_blocks_run_where_they_add_to_one_anothers_results(oracle: Oracle) -> None:
    """More instructions than are run of other launches: a sample of the sums would be wrong."""
    built = build(TASK, ADDS.replace("TURNS", "192"), DEVICE)
    assert isinstance(built, Build)
    runner = Runner(TASK, DEVICE, engine="numpy")
    (out,) = (arg for arg in TASK.args if arg.written)
    cases = oracle.oracle_cases([SMALL, MIDDLE, SMALL], Stop())
    for run in runner.run(built, cases, "check"):
        assert isinstance(run, CaseRun) and not run.report.sampled
        sums, half = run.after(out)[0].view(np.float32), run.oracle_case.case.dims["rows"] // 2
        assert (sums[:half] == 2).all() and not sums[half + 1 :].any()


@pytest.mark.second_tier
def test_sums_of_too_many_blocks_are_unsupported_not_wrong(oracle: Oracle) -> None:
    (found,) = outcomes(oracle, ADDS.replace("TURNS", "6000"), [MIDDLE], "numpy")
    assert isinstance(found, Unsupported) and "add to each other" in found.what


@pytest.mark.second_tier
def test_a_polling_loop_that_never_runs_hides_no_wrong_last_rows(oracle: Oracle) -> None:
    """Nor does it make the sample the first blocks, of which nobody would see the last rows."""
    source = (
        HEAD
        + """
    __global__ void k(float* out, const float* x, int64_t n) {
      if (n < 0) while (*(const volatile float*)x == 1.f) {}
      __shared__ float sum;
      for (int turn = 0; turn < 512; ++turn) __syncthreads();
      if (threadIdx.x == 0) sum = 0;
      __syncthreads();
      float own = 0;
      for (int64_t i = threadIdx.x; i < n; i += 1024) own += x[blockIdx.x * n + i];
      atomicAdd(&sum, own);
      __syncthreads();
      if (threadIdx.x == 0) out[blockIdx.x] = blockIdx.x < gridDim.x - 1 ? sum : sum + 1;
    }
    """
        + SIGNATURE.replace("int64_t,", "int64_t n,")
        + """{
      k<<<unsigned(rows), 1024, 0, stream>>>((float*)out, (const float*)x, n);
      return cudaGetLastError();
    }
    """
    )
    built = build(TASK, source, DEVICE)
    assert isinstance(built, Build)
    runner = Runner(TASK, DEVICE, engine="numpy")
    for run in runner.run(built, oracle.oracle_cases([MIDDLE], Stop()), "time"):
        assert isinstance(run, CaseRun) and run.report.sampled
        assert "the first ones" not in run.report.sampled
        found = compare(TASK, run)
        assert isinstance(found, Wrong) and found.case == MIDDLE


@pytest.mark.second_tier
def test_all_blocks_run_where_ten_seconds_are_enough(oracle: Oracle) -> None:
    middle = Case(dims={"rows": 1024, "n": 1024}, dtype="float32")
    source = (
        HEAD
        + """
    __global__ void k(float* out) {
      if (threadIdx.x == 0) out[blockIdx.x] = 1.f;
      for (int i = 0; i < 1024; ++i) __syncthreads();
    }
    """
        + SIGNATURE
        + """{
      k<<<unsigned(rows), 256, 0, stream>>>((float*)out);
      return cudaGetLastError();
    }
    """
    )
    (run,) = outcomes(oracle, source, [middle])
    assert isinstance(run, CaseRun) and not run.report.sampled, "on the C engine"
    (run,) = outcomes(oracle, source, [middle], "numpy")
    assert isinstance(run, CaseRun) and not run.report.sampled, "ten seconds are affordable"
