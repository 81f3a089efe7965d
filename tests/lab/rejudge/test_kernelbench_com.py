"""Solutions of kernelbench.com's deck are judged with the sizes, scales and tolerances of its own
check: ties, floats of 8 bits, files beside a solution. On a CPU, in two walled processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_chat.tools.sandbox.isolation import ENOUGH, isolation
from astra_chat.tools.walled.processes import Judging, judge
from lab.rejudge.kernelbench_com import DETAILS, PROBLEMS, RUNS, labelled
from lab.rejudge.sets import pairs

ON_CPU = Judging("cpu", "7", timing=False)
TOP_K = """
import torch
class Model(torch.nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))
    def forward(self, x):
        return tuple(torch.topk(x, self.k))
batch, n, k = 1, 1, 1
def get_inputs():
    torch.manual_seed(0)
    return [torch.randint(0, 20, (batch, n)).float()]
def get_init_inputs():
    return [batch, n, k]
"""
OTHER_TIES = """
from __future__ import annotations
import torch
from beside import turned
class Model(torch.nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))
    def forward(self, x):
        values, places = torch.topk(x.flip(-1), self.k)
        return values, CHANGE
# ====
# ===== sidecar: beside.py (9 bytes, loaded by solution.py) =====
# ====
def turned(places, n):
    return n - 1 - places
"""
FP8 = """
import torch
class Model(torch.nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        w = torch.randn(N, K)
        s = w.abs().amax(1) / 448
        self.register_buffer("weight", (w / s[:, None]).to(torch.float8_e4m3fn))
        self.register_buffer("weight_scale", s)
    def forward(self, x):
        y = (x.to(torch.bfloat16) @ self.weight.to(torch.bfloat16).T).float()
        return (y * self.weight_scale).to(torch.bfloat16)
M, N, K = 1, 1, 1
def get_inputs():
    return [(torch.rand(M, K) * 8 - 4).to(torch.float8_e4m3fn)]
def get_init_inputs():
    return [M, N, K]
"""
needs_walls = pytest.mark.skipif(isolation() not in ENOUGH, reason="nothing isolates here")


def checkout(folder: Path, problem: str, reference: str, shapes: str, solution: str) -> Path:
    """A folder as the deck's checkout is, with one labelled solution and one that is not."""
    own = folder / PROBLEMS / problem
    for path in (own, folder / RUNS, folder / DETAILS):
        path.mkdir(parents=True)
    (own / "reference.py").write_text(reference)
    (own / "shapes.py").write_text(f"SHAPES = {shapes}\n")
    (own / "problem.yaml").write_text("name: x\ntolerance:\n  bfloat16: 0.2\nforbidden:\n")
    (folder / RUNS / "one_solution.py.txt").write_text(solution)
    said = {"problem": problem, "shapes": [{"label": "a", "ms": 0.5}]}
    for name, label in (("one", "clean"), ("two", None)):
        text = json.dumps({**said, "annotation_verdict": label})
        (folder / DETAILS / f"{name}.json").write_text(text)
    return folder


@needs_walls
@pytest.mark.parametrize(
    ("places", "grade"), [("turned(places, x.shape[1])", "right"), ("places", "wrong")]
)
def test_equal_values_may_be_chosen_freely(tmp_path: Path, places: str, grade: str) -> None:
    shapes = '[{"batch": 4, "n": 64, "k": 8}, {"batch": 2, "n": 30, "k": 3}]'
    solution = OTHER_TIES.replace("CHANGE", places)
    (one,) = pairs(checkout(tmp_path, "05_topk_bitonic", TOP_K, shapes, solution))
    assert one.claim["ms"] == 0.5
    found = judge(one.problem, one.candidate, ON_CPU)
    names = [name for name, _ in found["findings"]]
    assert found["grades"]["set"] == grade, found
    if grade == "right":
        assert set(found["grades"]) == {"set", "values", "weights", "shapes"}
        assert set(found["grades"].values()) == {"right"}
        assert names == ["no_kernel"]


@needs_walls
@pytest.mark.second_tier
def test_floats_of_8_bits_are_judged(tmp_path: Path) -> None:
    shapes = '[{"M": 8, "N": 24, "K": 48}, {"M": 3, "N": 5, "K": 17}]'
    (one,) = labelled(checkout(tmp_path, "01_fp8_gemm", FP8, shapes, FP8))
    found = judge(one.problem, one.candidate, ON_CPU)
    right = {"set": "right", "values": "right", "weights": "right", "shapes": "right"}
    assert found["grades"] == right, found
    less = one.candidate.replace("y * self", "y * 0.7 * self")
    assert judge(one.problem, less, ON_CPU)["grades"]["set"] == "wrong"
