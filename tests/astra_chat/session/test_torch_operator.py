"""torch_op.py beside a module: an operator with a schema, traced without a GPU, run on one."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from astra_chat.session.export import operator_source
from astra_chat.tools.task.folder import Task, load_task

CONTRACTS = Path(__file__).resolve().parents[2] / "contracts"
TRACED = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch, torch_op
from torch._subclasses.fake_tensor import FakeTensorMode

operator = torch.ops.astra.silu_and_mul
with FakeTensorMode():  # tensors on a GPU that hold nothing
    of = lambda *shape: torch.empty(shape, dtype=torch.bfloat16, device="cuda:0")
    made = operator(of(4, 64), of(4, 128))

class Model(torch.nn.Module):
    def forward(self, x):
        out = x.new_empty(x.shape[0], x.shape[1] // 2)
        operator(out, x)
        return 2 * out

x = torch.empty(4, 128, dtype=torch.bfloat16, device="meta")
program = torch.export.export(Model(), (x,))
try:
    operator(torch.empty(4, 64), torch.empty(4, 128))
    refused = ""
except ValueError as error:
    refused = str(error)
print(json.dumps({
    "schema": str(operator.default._schema), "made": made, "refused": refused,
    "nodes": [str(node.target) for node in program.graph.nodes],
    "words": torch_op.silu_and_mul.__doc__,
}))
"""
RUN = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch, torch_op

operator = torch.ops.astra.silu_and_mul
x = torch.randn(37, 2 * 1360, device="cuda", dtype=torch.bfloat16)

def ours(x):
    out = x.new_empty(x.shape[0], x.shape[1] // 2)
    operator(out, x)
    return 2 * out

def theirs(x):
    gate, up = x.float().chunk(2, -1)
    return 2 * (torch.nn.functional.silu(gate) * up).to(x.dtype)

def error(found, x):
    return float((found.float() - theirs(x).float()).abs().max())

errors = {"eager": error(ours(x), x), "compiled": error(torch.compile(ours, fullgraph=True)(x), x)}
still, graph = x.clone(), torch.cuda.CUDAGraph()
ours(still)
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    held = ours(still)
for turn in range(2):
    still.copy_(torch.randn_like(still))
    graph.replay()
    errors[f"graph {turn}"] = error(held, still)
said = {}
for name, out, given in (
    ("width", x.new_empty(37, 1360), x[:, :-8].contiguous()),
    ("dtype", x.new_empty(37, 1360), x.double()),
    ("strided", x.new_empty(37, 1360), torch.cat([x, x], 1)[:, : 2 * 1360]),
):
    out.fill_(7)
    try:
        operator(out, given)
    except (ValueError, TypeError) as wrong:
        said[name] = f"{type(wrong).__name__}: {wrong}"
    torch.cuda.synchronize()
    assert bool((out == 7).all()), name
print(json.dumps({"errors": errors, "said": said}))
"""


def told(script: str, folder: Path) -> Any:
    """The JSON that a script prints, which is given the module's folder."""
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.second_tier
def test_it_is_traced_without_a_gpu(best: Path) -> None:
    """Fake tensors and torch.export trace it: it stays one node, which writes its first
    argument."""
    found = told(TRACED, best)
    assert found["schema"] == "astra::silu_and_mul(Tensor(a0!) out, Tensor input) -> ()"
    assert found["made"] is None and "astra.silu_and_mul.default" in found["nodes"]
    assert "CUDA" in found["refused"], found["refused"]
    assert "input: [tokens, 2*d], read." in found["words"]


@pytest.mark.gpu
def test_it_runs_eagerly_in_graphs_and_compiled(best: Path) -> None:
    found = told(RUN, best)
    assert all(error < 0.1 for error in found["errors"].values()), found["errors"]
    assert set(found["errors"]) == {"eager", "compiled", "graph 0", "graph 1"}
    assert found["said"]["width"].startswith("ValueError: input: axis 1 must be 2*d")
    words = "TypeError: input must have the dtype of the other tensors"
    assert found["said"]["dtype"] == words
    assert found["said"]["strided"] == "ValueError: input must be contiguous"


def test_all_kinds_of_parameters() -> None:
    source = operator_source(load_task(CONTRACTS / "scatter"))
    assert 'mutates_args=["cache", "scratch"]' in source, "a workspace is written, too"
    assert "    bias: torch.Tensor | None,\n" in source
    assert "    rot_dim: int,\n    causal: bool,\n) -> None:" in source
    assert "_launch(cache, key, slot, bias, scratch, rot_dim, causal)" in source


def test_a_tasks_words_end_no_string(task: Task) -> None:
    """A transcript's task may be anybody's."""
    hostile = 'x"""\nimport os\n\\"""'
    source = operator_source(task.model_copy(update={"summary": hostile}))
    assert not [node for node in ast.walk(ast.parse(source)) if getattr(node, "name", "") == "os"]
    assert "import os" not in {line.strip() for line in source.splitlines()}
