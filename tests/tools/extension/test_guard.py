"""Torch extensions as sources: which are recognized, and what the guard refuses, with the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.extension.guard import NO_MODULE, extension_findings, forward_head
from astra_chat.tools.extension.rules import operator_of
from astra_chat.tools.language import is_extension, language_of, written_in
from astra_chat.tools.task.folder import Task, find_task, load_task
from tests.tools.extension.samples import CHEATS, FUSED, HOST, module_task

MORE = """
struct Pair { int a; static __device__ float first(float x) { return x; } };
template <typename T, int K> struct alignas(16) Several { T v[K]; };
enum class Kind { small, large };
using torch::Tensor;
namespace { __constant__ float table[2] = {1.0f, 2.0f}; const float kScale = 0.5f; }
extern __shared__ float memory[];
template <class T> __device__ T half_of(T x) { static constexpr int two = 2; return x / two; }
"""


@pytest.fixture
def module(tmp_path: Path) -> Task:
    return load_task(module_task(tmp_path))


def test_a_file_is_recognized_by_its_forward() -> None:
    assert is_extension(FUSED) and language_of(HOST) == "torch"
    assert written_in(FUSED) == " as a torch extension"
    assert language_of("#include <torch/extension.h>\n__global__ void forward(int);") == "cuda"
    registered = f'{FUSED}PYBIND11_MODULE(x, m) {{ m.def("forward", &forward); }}'
    assert language_of(registered) == "cuda"
    several = FUSED.replace("torch::Tensor forward", "std::vector<at::Tensor> forward")
    assert is_extension(several)


def test_an_honest_extension_passes(module: Task) -> None:
    assert extension_findings(FUSED, module) == ()
    more = FUSED.replace("__device__ float sum", f"{MORE}__device__ float sum")
    assert extension_findings(more, module) == ()
    assert extension_findings(HOST, module, kernels=False) == ()
    given = "torch::Tensor x, torch::Tensor linear_weight, torch::Tensor linear_bias"
    assert forward_head(module) == f"torch::Tensor forward({given});"


REFUSED = {
    "kept tensor": ("constexpr int kT", "static at::Tensor kept;\nconstexpr int kT", "a variable"),
    "map": ("constexpr int kT", "std::vector<int> seen{1};\nconstexpr int kT", "a variable"),
    "counter": ("constexpr int kT", "__device__ int counter;\nconstexpr int kT", "a variable"),
    "record": ("constexpr int kT", "struct A { int b; } a;\nconstexpr int kT", "a variable"),
    "static": ("  auto h", "  static auto w = at::empty_like(x);\n  auto h", "static: every call"),
    "thread_local": ("  auto h", "  thread_local int w;\n  auto h", "thread_local"),
    "operator": ("at::addmm", "at::einsum", "at::einsum: not on the list"),
    "nn": ("at::addmm", "torch::nn::functional::linear", "torch::nn: not on the list"),
    "stream": ("getCurrentCUDAStream", "getStreamFromPool", "the current stream"),
    "event": ("  auto h", "  cudaEvent_t e;\n  auto h", "only the judge"),
    "graph": ("  auto h", "  at::cuda::CUDAGraph g;\n  auto h", "CUDAGraph"),
    "malloc": ("  auto h", "  cudaMalloc(&p, 4);\n  auto h", "must not allocate memory"),
    "blob": ("  auto h", "  auto b = torch::from_blob(p, {4});\n  auto h", "from_blob"),
    "item": ("  auto h", "  if (x.item<float>()) return x;\n  auto h", "wait for the GPU"),
    "thread": ("  auto h", "  std::thread t(f);\n  auto h", "threads"),
    "file": ("  auto h", '  fopen("a", "r");\n  auto h', "files"),
    "environment": ("  auto h", '  getenv("A");\n  auto h', "environment"),
    "assembly": ("  auto h", '  asm("syscall");\n  auto h', "host assembly"),
    "loader": ("  auto h", '  dlopen("a", 1);\n  auto h', "at run time"),
    "signal": ("  auto h", "  raise(9);\n  auto h", "operating system"),
    "python": ("  auto h", "  py::gil_scoped_acquire g;\n  auto h", "Astra registers forward"),
    "address": (
        "  auto h",
        "  auto a = uintptr_t(x.data_ptr());\n  auto h",
        "the addresses of its tensors",
    ),
    "header": ("#include <torch/extension.h>", "#include <torch/script.h>", "may not include"),
    "arguments": ("torch::Tensor linear_bias", "torch::Tensor bias", "the contract's arguments"),
    "no kernel": ("<<<h.size(0), kThreads, 0, stream>>>", "", "no kernel of its own"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_allowed_is_named(name: str, module: Task) -> None:
    old, new, words = REFUSED[name]
    assert old in FUSED
    source = FUSED.replace(old, new, 1)
    found = extension_findings(source, module)
    assert [one for one in found if words in one.what], found
    at = next((n for n, line in enumerate(source.splitlines(), 1) if new.split("\n")[0] in line), 1)
    if name not in ("no kernel", "arguments"):
        assert {one.line for one in found} == {at}


def test_a_cache_is_refused_before_anything_is_built(module: Task) -> None:
    assert extension_findings(CHEATS["cached"], module, kernels=False)


def test_only_module_tasks_take_extensions() -> None:
    (finding,) = extension_findings(FUSED, find_task("silu_and_mul"))
    assert finding.what == NO_MODULE


def test_overloads_are_their_operator() -> None:
    names = {"softmax_int": "softmax", "mm_out": "mm", "zero_": "zero_", "add_Tensor": "add"}
    assert {name: operator_of(name) for name in names} == names
    assert not any(map(operator_of, ("einsum", "_softmax", "cudnn_convolution", "item", "svd")))
