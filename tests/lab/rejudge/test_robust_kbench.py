"""robust-kbench's backward kernels are called as the set does, beside gradients by autograd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_chat.tools.sandbox.isolation import ENOUGH, isolation
from astra_chat.tools.walled.processes import Judging, judge
from lab.rejudge.robust_kbench import CLAIMS, LOADED, highlighted

TASK = """
import torch
class AutogradFunction(torch.autograd.Function):
    backward_fn = None
    @staticmethod
    def backward(ctx, grad_output):
        x, weights = ctx.saved_tensors
        return AutogradFunction.backward_fn(grad_output, x, weights)
def forward_fn(x, weights):
    return torch.relu(x @ weights.T)
class Model(torch.nn.Module):
    def __init__(self, wide, narrow=3):
        super(Model, self).__init__()
        self.weights = torch.nn.Parameter(torch.randn(narrow, wide))
    def forward(self, x, fn=forward_fn):
        return fn(x, self.weights)
def get_inputs(wide, rows=2):
    return [torch.randn(rows, wide, requires_grad=True)]
"""
KERNEL = """
class _kernel:
    @staticmethod
    def backward(grad, x, weights):
        grad = grad * (x @ weights.T > 0)
        return grad @ weights, grad.T @ x
"""


@pytest.mark.skipif(isolation() not in ENOUGH, reason="nothing isolates here")
def test_a_backward_pass_is_judged(tmp_path: Path) -> None:
    (folder := tmp_path / "highlighted/t/backward").mkdir(parents=True)
    (folder / "kernel.cu").write_text("published")
    (tmp_path / "tasks/t").mkdir(parents=True)
    (tmp_path / "tasks/t/func_backward.py").write_text(TASK)
    config = {f"single_{kind}_configs": [{}] for kind in ("input", "init")}
    config |= {"single_shared_configs": [{"wide": 8}], "multi_shared_configs": [{"wide": 5}]}
    config["multi_input_configs"] = [{"rows": 1}, {"rows": 7}]
    (tmp_path / "tasks/t/config_backward.json").write_text(json.dumps(config))
    rows = "CUDA Filename,Speedup,Speedup Compile,Code\nx/t/backward/k.cu,3,1.5,another\n"
    (tmp_path / CLAIMS).write_text(rows)
    one, claimed = highlighted(tmp_path)
    assert claimed.claim["eager"] == 3 and not one.claim and "another" in claimed.candidate
    candidate = one.candidate.replace(LOADED.format(source="published"), KERNEL)
    for text, grade in ((candidate, "right"), (candidate.replace("> 0", "> 9"), "wrong")):
        found = judge(one.problem, text, Judging("cpu", "7", timing=False))
        assert found["grades"]["set"] == grade, found
    assert {"set", "values", "weights", "shapes"} == found["grades"].keys()
