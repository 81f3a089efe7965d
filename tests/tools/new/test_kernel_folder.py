"""The files that the chosen kernel needs come from a folder, with their headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.new.create import new_task
from astra_chat.tools.new.kernel_folder import kernel_files
from astra_chat.tools.new.unfinished import launcher_problem
from astra_chat.tools.task.folder import load_task
from astra_vgpu.ground.errors import BadInput

FILES = {
    "csrc/scale.cu": '#include "ops.h"\n#include <mine/math.cuh>\n'
    "__global__ void scale_kernel(float* y, const float* x, int n) {\n"
    "  if (threadIdx.x < n) y[threadIdx.x] = doubled(x[threadIdx.x]);\n}\n"
    "void scale(torch::Tensor x,  // [n]\n           torch::Tensor y) {  // [n]\n"
    "  int n = x.size(0);\n"
    "  scale_kernel<<<1, n, 0, at::cuda::getCurrentCUDAStream()>>>(y.data_ptr<float>(),"
    " x.data_ptr<float>(), n);\n}\n",
    "csrc/other.cu": '#include "ops.h"\n__global__ void other_kernel(float* y, int n) {}\n'
    "void other(torch::Tensor y) {\n  int n = y.size(0);\n"
    "  other_kernel<<<1, n>>>(y.data_ptr<float>(), n);\n}\n",
    "csrc/binding.cpp": '#include "ops.h"\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n'
    '  m.def("scale", &scale);\n  m.def("other", &other);\n}\n',
    "csrc/ops.h": "#pragma once\n#include <torch/extension.h>\nvoid scale(torch::Tensor x,"
    " torch::Tensor y);\nvoid other(torch::Tensor y);\n",
    "include/mine/math.cuh": "#pragma once\n__device__ float doubled(float x) { return 2 * x; }\n",
    "csrc/.hidden/x.cu": "int x;\n",
    "README.md": "",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    return tmp_path / "project"


def test_only_what_is_needed(folder: Path) -> None:
    found = kernel_files(folder, "scale")
    assert [path.name for path in found] == ["binding.cpp", "scale.cu"]


@pytest.mark.second_tier
def test_a_task_of_a_folder(folder: Path) -> None:
    made, origin, _ = new_task("scaled", [folder], "scale")
    assert origin == "scale of the torch extension"
    task = load_task(made)
    assert launcher_problem(task) is None and task.headers[-1].endswith("mine/math.cuh")
    assert [(a.name, a.access) for a in task.args] == [("x", "read"), ("y", "write")]
    assert "other_kernel" not in task.baseline


def test_choices(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has scale, other: choose one with --op"):
        kernel_files(folder, None)
    with pytest.raises(BadInput, match="no function 'x'; it has scale, other"):
        kernel_files(folder, "x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=r"no file that ends in \.cu"):
        kernel_files(tmp_path / "empty", None)
