"""A failing case is set back to usual, one thing at a time; what makes it right is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.check.causes import changes
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.task_validation import check_task
from astra_chat.tools.types import Case, Device

TOML = """
schema = 2
name = "scaled"
summary = "out = input * scale, or its negative"
entry = "scaled"
dtypes = ["float32", "float16"]
flops = "rows*d"
flags = ["-O3", "-std=c++17"]
args = [
    { name = "out", dtype = "T", shape = ["rows", "d"], access = "write" },
    { name = "x", dtype = "T", shape = ["rows", "d"], access = "read", strides = ["free", 1] },
]
scalars = [
    { name = "scale", type = "float", value = 2.0, others = [0.5] },
    { name = "negative", type = "bool", value = false, values = [false, true] },
]
check = [
    { rows = 3, d = 20, dtype = "float32" },
    { rows = 1, d = 8, dtype = "float16" },
    { rows = 2, d = 40, dtype = "float32", values = "large" },
]
bench = [{ rows = 4, d = 64, dtype = "float32", weight = 1 }]
demo = [{ rows = 4, d = 64, dtype = "float32", weight = 1 }]
[dims.rows]
min = 1
max = 64
[dims.d]
min = 1
max = 512
[tolerance]
float32 = { rtol = 1e-5, atol = 1e-5 }
float16 = { rtol = 1e-3, atol = 1e-3 }
[provenance]
baseline = "written for this test"
"""
REFERENCE = """
def make_inputs(case, generator):
    return {"x": case.draw(generator, (case.dims["rows"], case.dims["d"]))}


def reference(inputs):
    scaled = inputs["x"].double() * inputs["scale"]
    return {"out": -scaled if inputs["negative"] else scaled}
"""
KERNEL = """#include <cuda_fp16.h>
#include <cstdint>

template <typename T>
__global__ void kernel(T* out, const T* x, int64_t d, int64_t stride, float scale) {
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x)
    out[blockIdx.x * d + i] = T(float(x[blockIdx.x * stride + i]) * scale);
}

extern "C" cudaError_t scaled(void* out, const void* x, int64_t rows, int64_t d, int64_t x_stride,
                              float scale, bool negative, int dtype, cudaStream_t stream) {
  const float factor = negative ? -scale : scale;
  if (dtype == 0)
    kernel<<<(int)rows, 64, 0, stream>>>((float*)out, (const float*)x, d, x_stride, factor);
  else
    kernel<<<(int)rows, 64, 0, stream>>>((__half*)out, (const __half*)x, d, x_stride, factor);
  return cudaGetLastError();
}
"""
FAULTS = {
    "scale": ("negative ? -scale : scale", "negative ? -2.0f : 2.0f"),
    "negative": ("negative ? -scale : scale", "scale"),
    "d": ("i < d;", "i < (d < 100 ? d : 100);"),
    "float16": (
        "(const __half*)x, d, x_stride, factor",
        "(const __half*)x, d, x_stride, 2 * factor",
    ),
    "contiguous": ("x[blockIdx.x * stride + i]", "x[blockIdx.x * d + i]"),
}


def folder(path: Path, kernel: str) -> Task:
    (path / "task.toml").write_text(TOML)
    (path / "reference.py").write_text(REFERENCE)
    (path / "baseline.cu").write_text(kernel)
    return load_task(path)


@pytest.mark.second_tier
def test_a_correct_task_is_fit(tmp_path: Path, device: Device) -> None:
    report = check_task(folder(tmp_path, KERNEL), device)
    assert report.fit, report.lines()


@pytest.mark.in_full
@pytest.mark.sampled(4)
@pytest.mark.second_tier
@pytest.mark.parametrize("what", ["scale", "negative", "d", "contiguous"])
def test_the_cause_is_named(what: str, tmp_path: Path, device: Device) -> None:
    old, new = FAULTS[what]
    assert old in KERNEL
    report = check_task(folder(tmp_path, KERNEL.replace(old, new)), device)
    assert not report.fit and not report.failed, "only drawn cases show it"
    words = {"contiguous": "contiguous arguments instead", "d": "d = "}
    named = [line for line in report.hidden_failed if words.get(what, f"{what} = ") in line]
    assert named and any("correct with" in line for line in named), report.hidden_failed


@pytest.mark.in_full
@pytest.mark.second_tier
def test_a_dtype_is_the_cause(tmp_path: Path, device: Device) -> None:
    task = folder(tmp_path, KERNEL.replace(*FAULTS["float16"]))
    report = check_task(task, device)
    assert any("correct with float32 instead of float16" in line for line in report.failed)


def test_changes_are_legal_and_single(tmp_path: Path) -> None:
    task = folder(tmp_path, KERNEL)
    case = Case(
        dims={"rows": 3, "d": 33},
        dtype="float32",
        values="tiny",
        pads={"x": 5},
        offset=2,
        scalars={"scale": 0.5, "negative": 1.0},
    )
    found = {change.back: change for change in changes(task, case, task.check)}
    assert list(found) == [
        "scale = 2 instead of 0.5",
        "negative = 0 instead of 1",
        "d = 20 instead of 33",
        "contiguous arguments instead of padded ones",
        "aligned arguments instead of shifted ones",
        "normal values instead of tiny",
    ]
    assert [change.values for change in found.values()] == [False] * 5 + [True]
    assert found["d = 20 instead of 33"].case == case.model_copy(
        update={"dims": {"rows": 3, "d": 20}}
    )


@pytest.mark.second_tier
def test_special_values_are_counted_by_one_rule(tmp_path: Path, device: Device) -> None:
    """NaN of an argument becomes 0 here, whatever else a case has: each such case is left out as
    values, though an extent set back may draw other numbers and make it right by chance."""
    forgets = KERNEL.replace(
        "T(float(x[blockIdx.x * stride + i]) * scale)",
        "T(isfinite(float(x[blockIdx.x * stride + i])) ? float(x[blockIdx.x * stride + i]) * scale"
        " : 0.0f)",
    )
    assert forgets != KERNEL
    report = check_task(folder(tmp_path, forgets), device, entropy=Entropy("0d"))
    assert report.left_out and not report.hidden_failed, report.lines()
    assert all("correct with normal values instead of" in text for text in report.left_out)
