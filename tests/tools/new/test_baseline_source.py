"""Plain CUDA is left of a framework's file; what cannot be said in it is marked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from astra_chat.tools.new.create import draft_of
from astra_chat.tools.new.translation import FOREIGN
from astra_chat.tools.policy.source_guard import guard
from tests.tools.new.samples import KERNELS, draft

EXTENSION = """#include <torch/extension.h>
using namespace torch;
__global__ void k(float* y, const float* x, int n) {}
static int helper(const torch::Tensor& x) { return x.dim(); }
torch::Tensor f(torch::Tensor x) {
  int n = x.size(0);
  %s
  k<<<1, 32>>>(y.data_ptr<float>(), x.data_ptr<float>(), n);
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f); }
"""


def body(statement: str) -> str:
    text = draft_of(EXTENSION % statement, "mine", None).baseline
    return text[text.index("cudaError_t launch_mine") : text.index('extern "C"')]


@pytest.mark.parametrize("file", sorted(p.name for p in KERNELS.glob("*.cu")))
def test_what_is_left_is_plain_and_compiles(file: str, tmp_path: Path) -> None:
    found = draft(file)
    words = [line for line in found.baseline.splitlines() if not line.lstrip().startswith("//")]
    assert not FOREIGN.search("\n".join(words)) and "torch" not in "\n".join(words)
    assert guard(found.baseline, found.entry) == ()
    source = tmp_path / "baseline.cu"
    source.write_text(found.baseline)
    done = subprocess.run(
        ["nvcc", "-std=c++17", "-arch=sm_90", "--ptx", "-o", "/dev/null", str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_checks_allocations_and_returns_are_cut() -> None:
    text = body('TORCH_CHECK(x.is_cuda(), "cuda"); auto y = torch::empty_like(x);')
    assert text.count(";") == 2, text
    assert "k<<<1, 32>>>(static_cast<float*>(y), static_cast<const float*>(x), n);" in text


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("auto y = torch::zeros_like(x); if (n == 0) return y;", "if (n == 0) return cudaSuccess;"),
        (
            "auto y = torch::empty_like(x); for (int i = 0; i < n; ++i) { n += i; }",
            "for (int i = 0; i < n; ++i) {",
        ),
        ("auto y = torch::empty_like(x); y.fill_(torch::ones(1));", "// y.fill_(torch::ones(1));"),
        (
            "auto y = torch::empty_like(x); int d = helper(x.get_device());",
            "COMPLETE: this needs the framework",
        ),
        (
            "auto y = torch::empty_like(x); auto d = x.storage(); int e = d + 1; n = e + 2; n = 1;",
            "  // int e = d + 1;\n  // COMPLETE: this needs the framework; say it in plain CUDA:\n"
            "  // n = e + 2;\n  n = 1;",
        ),
        (
            "auto options = x.options(); auto y = torch::empty_like(x, options); LAST(x)",
            "\n  LAST(x)\n",
        ),
        (
            "auto y = torch::empty_like(x); if (x.dtype() == torch::kHalf) { n = 1; }",
            "if (std::is_same_v<scalar_t, __half>) {",
        ),
        (
            "auto y = torch::empty_like(x); if (x.device().index() > 0) { n = 1; }",
            "COMPLETE: before this block stood if (x.device().index() > 0)",
        ),
        ("auto y = torch::empty_like(x); n = x.numel() / 4;", "n = (n) / 4;"),
    ],
)
def test_statements(statement: str, left: str) -> None:
    assert left in body(statement)


def test_a_launch_on_the_default_stream_is_marked() -> None:
    assert "COMPLETE: launch it on `stream`" in draft("muladd_library.cu").baseline
    assert "COMPLETE: launch it" not in draft("gate_library.cu").baseline


def test_a_helper_that_was_cut_is_named_where_it_is_called() -> None:
    text = draft_of(EXTENSION % "auto y = torch::empty_like(x); helper(x);", "m", None).baseline
    assert "COMPLETE: helper used the framework and was cut" in text
    text = draft_of(EXTENSION % "auto y = torch::empty_like(x);", "m", None).baseline
    assert "helper" not in text and "using namespace" not in text


def test_directives_in_what_is_cut_stay() -> None:
    source = EXTENSION % "auto y = torch::empty_like(x);"
    guarded = "#ifndef ONCE\n#define ONCE\nMADE_BY(TORCH_EXTENSION_NAME)\n#endif\n"
    text = draft_of(
        source.replace("using namespace torch;", f"{guarded}using namespace torch;"), "mine", None
    ).baseline
    assert "MADE_BY" not in text and text.count("#ifndef") == text.count("#endif") == 1
    assert text.index("#ifndef ONCE") < text.index("#endif")
