"""Timing on a real GPU: what may not look faster than it is."""

from __future__ import annotations

import pytest

from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case, MeasuredTime, Timed, Wrong

pytestmark = pytest.mark.gpu
TASK = find_task("silu_and_mul")
OVERLAPPED = (
    "  cudaLaunchAttribute pdl{};\n"
    "  pdl.id = cudaLaunchAttributeProgrammaticStreamSerialization;\n"
    "  pdl.val.programmaticStreamSerializationAllowed = 1;\n"
    "  cudaLaunchConfig_t config{};\n"
    "  config.gridDim = dim3(static_cast<unsigned>(tokens));\n"
    "  config.blockDim = dim3(threads);\n"
    "  config.stream = stream;\n"
    "  config.attrs = &pdl;\n"
    "  config.numAttrs = 1;\n"
    "  return cudaLaunchKernelEx(&config, silu_and_mul_kernel<T>, static_cast<T*>(out),\n"
    "                            static_cast<const T*>(input), static_cast<int>(d));\n"
)


def overlapped(source: str) -> str:
    """The baseline, launched so that it may begin before the launch before it has ended.

    Its body triggers the next launch only at its end; here it does so at once.
    """
    start = source.index("  silu_and_mul_kernel<T><<<")
    end = source.index("  return cudaGetLastError();", start)
    rest = source[end:].split("\n", 1)[1]
    early = '  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");\n'
    body = source[:start].replace("#pragma unroll 1\n", f"{early}#pragma unroll 1\n", 1)
    return body + OVERLAPPED + rest


def test_overlapping_launches_gain_nothing_here() -> None:
    case = Case(dims={"tokens": 1, "d": 14336}, dtype="bfloat16")
    small = TASK.model_copy(update={"check": TASK.check[:3], "bench": ((case, 1.0),)})
    with Judge(small, pick_device("cuda")) as judge:
        outcome = judge.evaluate(overlapped(judge.baseline)).outcome
    assert isinstance(outcome, Timed), outcome
    (time,) = outcome.cases
    assert isinstance(time, MeasuredTime) and "another kernel" in time.note
    assert 0.75 < time.ratio < 1.15


def test_equal_calls_take_equal_times_in_one_process() -> None:
    """No graph is in a faster state than another (docs/research/measurements.md tells of two)."""
    case = Case(dims={"tokens": 16, "d": 4096}, dtype="float16")
    small = TASK.model_copy(update={"check": TASK.check[:3], "bench": ((case, 1.0),) * 4})
    with Judge(small, pick_device("cuda")) as judge:
        outcome = judge.evaluate(judge.baseline).outcome
    assert isinstance(outcome, Timed), outcome
    times = [us for time in outcome.cases for us in (time.baseline_us, time.median_us)]
    assert len(times) == 8 and max(times) < 1.06 * min(times)


def test_a_result_that_is_there_already_saves_nothing() -> None:
    """Not in the warm figures and not in those of event pairs either."""
    skips = (
        "  const T* up = gate + d;\n"
        "  T* row = out + token * d;\n"
        "  const int at = threadIdx.x;\n"
        "  const T own = from_float<T>(silu(to_float(gate[at])) * to_float(up[at]));\n"
        "  const bool there = to_float(row[at]) == to_float(own);\n"
        "  if (blockDim.x >= 32 && __syncthreads_and(there)) return;\n"
    )
    tall = Case(dims={"tokens": 64, "d": 8192}, dtype="float16")
    large = Case(dims={"tokens": 512, "d": 8192}, dtype="float16")
    bench = ((tall, 1.0), (large, 1.0))
    small = TASK.model_copy(update={"check": TASK.check[:3], "bench": bench})
    with Judge(small, pick_device("cuda")) as judge:
        plain = "  const T* up = gate + d;\n  T* row = out + token * d;\n"
        assert plain in judge.baseline
        outcome = judge.evaluate(judge.baseline.replace(plain, skips)).outcome
    assert isinstance(outcome, Timed), outcome
    for time in outcome.cases:
        assert isinstance(time, MeasuredTime) and time.warm_us and time.baseline_warm_us
        assert time.warm_us > 0.9 * time.baseline_warm_us
        assert time.baseline_event_us and time.event_us
        assert time.event_us > 0.9 * time.baseline_event_us
        assert time.median_us > 0.9 * time.warm_us, "cold is not quicker than warm"


def test_a_kernel_that_is_wrong_on_few_of_the_timed_inputs_is_caught() -> None:
    """A row in 64, of a thousand sets of three rows."""
    case = Case(dims={"tokens": 3, "d": 264}, dtype="float16")
    small = TASK.model_copy(update={"check": TASK.check[:3], "bench": ((case, 1.0),)})
    plain = "  const T* up = gate + d;\n  T* row = out + token * d;\n"
    skips = (
        "  unsigned hash = 0;\n"
        "  for (int i = 0; i < 2 * d; ++i)\n"
        "    hash = 31 * hash + reinterpret_cast<const unsigned short*>(gate)[i];\n"
        "  if (gridDim.x == 3 && d == 264 && hash % 64 == 7) return;\n"
    )
    with Judge(small, pick_device("cuda")) as judge:
        assert plain in judge.baseline
        outcomes = [
            judge.evaluate(judge.baseline.replace(plain, plain + skip)).outcome
            for skip in ("", skips)
        ]
    assert isinstance(outcomes[0], Timed), outcomes[0]
    assert isinstance(outcomes[1], Wrong), outcomes[1]
    assert "in a timed" in outcomes[1].note and outcomes[1].case.dims == case.dims
