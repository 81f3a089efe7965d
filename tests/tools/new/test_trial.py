"""`new` builds what it writes and learns from what the function launches, allocates and returns."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from astra_chat.tools.new.create import new_task
from astra_chat.tools.new.trial import tried_again
from tests.tools.new.samples import PROJECTS

PLAIN = """#include <torch/all.h>
__global__ void k(float* x) { x[0] = 1; }
void f(torch::Tensor& x) { const int n = x.size(0);
  TORCH_CHECK(x.dim() == 1 && x.scalar_type() == at::ScalarType::Float);
  if (n == 7) TORCH_CHECK(false, "not of seven");
  k<<<n, 1, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>()); }
"""


pytestmark = pytest.mark.second_tier


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def contract(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "task.toml").read_text())


def test_what_a_function_makes_reads_and_takes() -> None:
    """A wrapper of TORCH_LIBRARY, launches in a macro, a struct, a workspace, a returned tensor, a
    text, an optional number, and a function beside it that is not implemented."""
    folder, _, notes = new_task("means", [PROJECTS / "two_level_vllm.cu"], "row_means")
    made = contract(folder)
    assert (folder / "baseline.cu").read_text() == (PROJECTS / "two_level_vllm.cu").read_text()
    assert made["headers"] == ["project/two_level_dispatch.h"]
    assert {(a["name"], a["access"], *a["shape"]) for a in made["args"]} == {
        ("out", "write", "rows"),
        ("x", "read", "rows", "width"),
        ("workspace", "workspace", "ceil_div(4*(rows), 256)*256"),
    }
    assert made["dtypes"] == ["float16", "float32"] or made["dtypes"] == ["float32", "float16"]
    assert made["binding"] == {
        "operator": "row_means",
        "args": ["x", {"text": "mean"}, {}],
        "returns": ["out"],
    }
    assert "-DASTRA_UNCALLED_LIBRARY" in made["flags"]
    assert all("is left out" in note for note in notes)


def test_a_flag_gets_the_value_that_a_check_demands() -> None:
    flag = PLAIN.replace("Tensor& x)", "Tensor& x, bool smooth)")
    flag = flag.replace("  k<<<", '  TORCH_CHECK(!smooth, "no smoothing yet");\n  k<<<')
    Path("flag.cu").write_text(
        flag.replace('  if (n == 7) TORCH_CHECK(false, "not of seven");\n', "")
    )
    folder, _, notes = new_task("mine", [Path("flag.cu")])
    assert notes == () and contract(folder)["scalars"][0]["value"] is False
    assert "calls with true fail: " in (folder / "task.toml").read_text()


SHARED = """#include <torch/all.h>
__global__ void k(float* x, int m) { x[blockIdx.x * m] = 1; }
void f(torch::Tensor& x, torch::Tensor& y) {
  const int n = x.size(0), m = x.size(1), all = y.size(1), shared = all - m;
  TORCH_CHECK(x.scalar_type() == at::ScalarType::Float && y.scalar_type() == at::ScalarType::Float);
  TORCH_CHECK(x.dim() == 2 && y.dim() == 2 && y.size(0) == n, "rows");
  TORCH_CHECK(shared == 0 || shared == 1, "one more column at most");
  k<<<n, 1, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), m); }
"""


def test_equal_sizes_meet_a_check_that_no_relation_tells() -> None:
    Path("shared.cu").write_text(SHARED)
    folder, _, notes = new_task("mine", [Path("shared.cu")])
    assert notes == () and len(contract(folder)["require"]) == 1


def test_instructions_of_a_newer_gpu_are_said_once() -> None:
    code = "{ .reg .b8 b; cvt.rn.satfinite.e2m1x2.f32 b, %0, %0; }"
    asm = f'asm volatile("{code}" :: "f"(x[0]));'
    Path("newer.cu").write_text(PLAIN.replace("x[0] = 1;", f"{asm} {asm}"))
    _, _, (note,) = new_task("mine", [Path("newer.cu")])
    assert note.count("e2m1x2") == 1 and "on sm_90. Leave such code out" in note


def test_macros_for_element_types_are_defined_where_calls_need_them() -> None:
    """A build with them runs; without, its dispatch accepts no dtype."""
    guard = "#ifdef ENABLE_HALF\n#define TAKES(t) t == at::ScalarType::Half\n#else\n"
    guard += "#define TAKES(t) false\n#endif\n"
    half = PLAIN.replace("x.scalar_type() == at::ScalarType::Float", "TAKES(x.scalar_type())")
    half = half.replace("float", "__half").replace(");\n  if", ', "no dispatch");\n  if')
    Path("guarded.cu").write_text(
        guard + half.replace("__half>()", "c10::Half>()").replace("x.data", "(__half*)x.data")
    )
    folder, _, notes = new_task("mine", [Path("guarded.cu")])
    assert "-D ENABLE_HALF" in notes[0] and "-DENABLE_HALF" in contract(folder)["flags"]


def test_what_does_not_build_or_fails_is_said() -> None:
    Path("bad.cu").write_text(
        "#include <torch/all.h>\n__global__ void k(float* x) { x[0] = 1; }\n"
        "void f(torch::Tensor x, int64_t n) { k<<<1, 1>>>(x.data_ptr<float>()); missing(); }\n"
    )
    folder, _, (note,) = new_task("bad", [Path("bad.cu")])
    assert note.startswith("the file does not build: ") and "missing" in note
    assert contract(folder)["binding"]["function"] == "f"
    Path("picky.cu").write_text(
        "#include <torch/all.h>\n__global__ void k(float* x) { x[0] = 1; }\n"
        "void f(torch::Tensor x) { const int n = x.size(0);\n"
        '  TORCH_CHECK(n > 1000000, "too small: ", n);\n'
        "  k<<<n, 1, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>()); }\n"
    )
    _, _, notes = new_task("picky", [Path("picky.cu")])
    assert any("too small: 1" in note for note in notes)


def test_a_file_that_nvcc_takes_long_over_gets_a_longer_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has macros that Astra's headers, the standard library and the launcher use as names."""
    monkeypatch.setattr("astra_chat.tools.new.trial.BUILD_TIMEOUT_S", 0.5)
    Path("slow.cu").write_text(
        "#define N 4\n#define T float\n#define min(a, b) ((a) < (b) ? (a) : (b))\n"
        "#define Tensor 1\n#define n rows\n#define launch(a, b) a\n#define scale(x) (2 * (x))\n"
        "__global__ void k(T* x, int n) {\n"
        "  for (int i = 0; i < min(n, N); ++i) x[i] = scale(x[i]); }\n"
        "#define f doubled\n"
        "void f(T* x, int n, cudaStream_t stream) { k<<<1, 1, 0, stream>>>(x, n); }\n"
    )
    folder, _, notes = new_task("slow", [Path("slow.cu")])
    limit_s = contract(folder)["build_timeout_s"]
    assert limit_s > 0 and limit_s % 60 == 0
    (note,) = notes
    assert f"build_timeout_s in task.toml is {limit_s}" in note


def test_changed_cases_are_tried_again() -> None:
    Path("even.cu").write_text(PLAIN)
    folder, _, notes = new_task("even", [Path("even.cu")])
    assert not [note for note in notes if "not of seven" in note]
    made = contract(folder)
    text = (folder / "task.toml").read_text()
    rows = text[text.index("check = [") : text.index("bench = [")]
    (folder / "task.toml").write_text(text.replace(rows, "check = [{ n = 7 }]\n\n"))
    kept = "float16 is left out: no case has it"
    assert made["dims"]["n"] and tried_again(folder, ("1: gone", kept)) == (
        kept,
        "7 float32: not of seven",
    )


CODES = """#include <torch/all.h>
using code_t = c10::Float8_e4m3fn;
template <typename T>
__global__ void k(code_t* out, const T* x, const float* by, const T* bias) {
  const int i = blockIdx.x;
  out[i] = static_cast<code_t>(float(x[i]) * by[0] + float(bias[i])); }
void encode(torch::Tensor& out, torch::Tensor const& x, torch::Tensor const& by,
            torch::Tensor const& bias) {
  const int n = x.size(0);
  TORCH_CHECK(out.numel() == x.numel() && bias.numel() == n && by.numel() == 1);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "encode", [&] {
    k<scalar_t><<<n, 1, 0, at::cuda::getCurrentCUDAStream()>>>(
        out.data_ptr<code_t>(), x.data_ptr<scalar_t>(), by.data_ptr<float>(),
        bias.data_ptr<scalar_t>()); });
}
"""


def test_the_pointers_that_a_function_asks_for_tell_dtypes() -> None:
    Path("encode.cu").write_text(CODES)
    folder, _, notes = new_task("codes", [Path("encode.cu")])
    made = contract(folder)
    assert {a["name"]: a["dtype"] for a in made["args"]} == {
        "out": "float8_e4m3fn",
        "x": "T",
        "by": "float32",
        "bias": "T",
    }
    assert {"float16", "float32"} == {*made["dtypes"]}
    assert not [note for note in notes if "expected scalar type" in note]


GROUPS = """#include <torch/all.h>
__global__ void k(const float* x, int8_t* codes, float* scales, int width, int group) {
  const int groups = (width + group - 1) / group;
  for (int g = 0; g < groups; ++g) {
    float most = 1e-6f;
    for (int i = g * group; i < min(width, g * group + group); ++i)
      most = fmaxf(most, fabsf(x[blockIdx.x * width + i]));
    scales[blockIdx.x * groups + g] = most / 127;
    for (int i = g * group; i < min(width, g * group + group); ++i)
      codes[blockIdx.x * width + i] = (int8_t)rintf(x[blockIdx.x * width + i] * 127 / most);
  }
}
void quantized(torch::Tensor& codes, torch::Tensor const& x, torch::Tensor& scales) {
  const int width = x.size(-1);
  const int rows = x.numel() / width;
  TORCH_CHECK(x.scalar_type() == at::ScalarType::Float);
  k<<<rows, 1, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(),
      codes.data_ptr<int8_t>(), scales.data_ptr<float>(), width, GROUP); }
"""


@pytest.mark.parametrize(
    ("group", "shape"), [("width", ["rows"]), ("32", ["rows", "ceil_div(width, 32)"])]
)
def test_results_have_the_shapes_that_calls_write(group: str, shape: list[str]) -> None:
    """Nothing states a shape; a full code has the bytes of a NaN, which results hold before."""
    Path("codes.cu").write_text(GROUPS.replace("GROUP", group))
    folder, _, notes = new_task("codes", [Path("codes.cu")])
    args = {arg["name"]: arg for arg in contract(folder)["args"]}
    assert args["codes"]["shape"] == ["rows", "width"] and args["scales"]["shape"] == shape
    assert "is this its shape" not in (folder / "task.toml").read_text() and not notes


def test_a_result_with_gaps_keeps_its_mark() -> None:
    """Every second number is written: no shape is contiguous and has these."""
    Path("pairs.cu").write_text(
        GROUPS.replace("GROUP", "width").replace(
            "scales[blockIdx.x * groups", "scales[blockIdx.x * 2"
        )
    )
    folder, _, _ = new_task("pairs", [Path("pairs.cu")])
    (line,) = [t for t in (folder / "task.toml").read_text().splitlines() if '"scales", dtype' in t]
    assert 'shape = ["rows", "width"]' in line and "is this its shape" in line


CHECKED = """#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Dispatch.h>
using torch::stable::Tensor;
template <class T> __global__ void k(T* o, const T* x) { o[blockIdx.x] = x[blockIdx.x]; }
Tensor f(const Tensor& x, const Tensor& qkv, const Tensor& w, int64_t bit, int64_t hq, int64_t hk,
         int64_t hd) {
  const int64_t n = x.size(0), d = x.size(1), c = qkv.size(1), e = w.size(0), g = w.size(1);
  STD_TORCH_CHECK(x.dim() == 2 && qkv.dim() == 2 && w.dim() == 2 && qkv.size(0) == n);
  STD_TORCH_CHECK(bit == 4 || bit == 8, "bit must be 4 or 8");
  STD_TORCH_CHECK(c == (hq + hk + n) * hd, "QKV size");
  if (d % 64 != 0) throw std::invalid_argument("d is not multiple");
  STD_TORCH_CHECK((e == 256 && g == 3072) || (e == 9 && g == 5), "(3072, 256) or (9, 5)");
  Tensor out = torch::stable::new_empty(x, {n});
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream));
  using torch::headeronly::ScalarType;
  THO_DISPATCH_SWITCH(x.scalar_type(), "f", THO_DISPATCH_CASE(ScalarType::Half, [&] {
    k<<<n, 1, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<scalar_t*>(out.mutable_data_ptr()),
        static_cast<const scalar_t*>(x.const_data_ptr()));
  }));
  return out;
}
STABLE_TORCH_LIBRARY(demo, m) {
  m.def("f(Tensor x, Tensor qkv, Tensor w, int bit, int hq, int hk, int hd) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(demo, CUDA, m) { m.impl("f", TORCH_BOX(&f)); }
"""


def test_failing_calls_of_the_stable_abi_say_what_sizes_are_allowed() -> None:
    """A product of a sum, a multiple, a pair of numbers and a number: nothing reads the checks."""
    Path("checked.cu").write_text(CHECKED)
    folder, _, notes = new_task("checked", [Path("checked.cu")])
    made = contract(folder)
    assert not [note for note in notes if "is left out" not in note]
    assert made["dims"]["d"]["multiple_of"] == 64
    assert (made["dims"]["e"]["values"], made["dims"]["g"]["values"]) in (
        ([256], [3072]),
        ([9], [5]),
    )
    assert made["scalars"][0]["value"] == 4 and made["dtypes"] == ["float16"]
    assert any("c == " in text and "hd" in text for text in made["require"])
    assert made["binding"]["returns"] == ["out"]
