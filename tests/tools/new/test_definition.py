"""A Definition of flashinfer-bench becomes a task, alone or with the kernel's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from astra_chat.tools.new.create import new_task
from astra_chat.tools.new.definition import read_definition
from astra_chat.tools.new.unfinished import launcher_problem, marks
from astra_chat.tools.task.folder import load_task
from astra_vgpu.ground.errors import BadInput

DEFINITION: dict[str, Any] = {
    "name": "gather_scaled_h128",
    "op_type": "gather",
    "description": "out = table[ids] * scale",
    "axes": {
        "num_tokens": {"type": "var"},
        "H": {"type": "const", "value": 128},
        "vocab_size": {"type": "var"},
    },
    "constraints": ["num_tokens <= vocab_size", "ids.max() < vocab_size"],
    "inputs": {
        "table": {"shape": ["vocab_size", "H"], "dtype": "bfloat16"},
        "ids": {"shape": ["num_tokens"], "dtype": "int64"},
        "scale": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"out": {"shape": ["num_tokens", "H"], "dtype": "bfloat16"}},
    "reference": "import torch\n\ndef run(table, ids, scale):\n    return table[ids] * scale\n",
}
KERNEL = """#include <cuda_bf16.h>
#include <cstdint>
__global__ void kernel(__nv_bfloat16* out, const __nv_bfloat16* table, const int64_t* ids, int h,
                       float scale) {
  for (int i = threadIdx.x; i < h; i += blockDim.x)
    out[blockIdx.x * h + i] = table[ids[blockIdx.x] * h + i] * __float2bfloat16(scale);
}
void gather(__nv_bfloat16* out, const __nv_bfloat16* table, const int64_t* ids, int num_tokens,
            int h, float scale, cudaStream_t stream) {
  kernel<<<num_tokens, 64, 0, stream>>>(out, table, ids, h, scale);
}
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "definition.json").write_text(json.dumps(DEFINITION))
    (tmp_path / "gather.cu").write_text(KERNEL)
    return tmp_path / "definition.json"


def test_alone(path: Path) -> None:
    folder, origin, _ = new_task("gather", [path])
    assert origin == "the Definition gather_scaled_h128"
    task = load_task(folder)
    assert launcher_problem(task) is None
    rows = [(a.name, a.dtype, tuple(map(str, a.shape)), a.access) for a in task.args]
    assert rows == [
        ("table", "T", ("vocab_size", "h"), "read"),
        ("ids", "int64", ("num_tokens",), "read"),
        ("out", "T", ("num_tokens", "h"), "write"),
    ]
    assert task.dims["h"].values == (128,) and task.dtypes == ("bfloat16",)
    assert [str(one) for one in task.require] == ["num_tokens <= vocab_size"]
    assert task.summary == "out = table[ids] * scale"
    assert any(
        "baseline.cu" in place and "the kernel and its launcher" in place for place in marks(folder)
    )


def test_with_the_kernel(path: Path) -> None:
    folder, origin, _ = new_task("gather", [path, path.parent / "gather.cu"])
    assert origin == "the launcher gather"
    task = load_task(folder)
    assert launcher_problem(task) is None and "kernel<<<num_tokens" in task.baseline
    assert tuple(map(str, task.args[1].shape)) == ("vocab_size", "h")
    assert task.dims["h"].values == (128,)


def test_its_reference_is_called(path: Path) -> None:
    folder, _, _ = new_task("gather", [path])
    text = (folder / "reference.py").read_text()
    compile(text, "reference.py", "exec")
    assert 'run(inputs["table"], inputs["ids"], inputs["scale"])' in text
    assert text.count("import torch") == 1 and '"ids": ' not in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"axes": 3}, "axes: .* it is not a Definition"),
        ({"reference": ""}, "reference"),
        (
            {"outputs": {"out": {"shape": ["n"], "dtype": "bfloat16"}}},
            "its axis n is not listed in axes",
        ),
        ({"outputs": {"out": {"shape": ["H"], "dtype": "float4"}}}, "out is float4"),
    ],
)
def test_what_is_no_definition(path: Path, change: dict[str, Any], words: str) -> None:
    path.write_text(json.dumps(DEFINITION | change))
    with pytest.raises(BadInput, match=words):
        read_definition(path)
    path.write_text("not json")
    with pytest.raises(BadInput, match="not a Definition"):
        read_definition(path)
