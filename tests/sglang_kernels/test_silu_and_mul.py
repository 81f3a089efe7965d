"""The task silu_and_mul: its contract, its reference, and the kernels and words of its script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from astra_chat.models.script import ScriptedKernel, load_script
from astra_chat.tools.descriptions import verdict
from astra_chat.tools.judge import Judge
from astra_chat.tools.runners.values import DrawnCase
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import ITEM_BYTES, Basis
from tests.sglang_kernels import shipped

TASK = find_task("silu_and_mul")
SCRIPT = load_script(TASK)
KERNELS = shipped.kernels(TASK)


def test_cases_cover_what_breaks_kernels() -> None:
    """Every dtype and value family, tails of the baseline's block, and a grid's limits."""
    assert {c.dtype for c in TASK.check} == set(TASK.dtypes)
    assert {c.values for c in TASK.check} == {
        "normal",
        "large",
        "tiny",
        "ramp",
        "one_hot",
        "special",
    }
    spans = {name: 1024 * 16 // size for name, size in ITEM_BYTES.items()}
    assert all(
        any(
            c.dims["d"] > spans[name] and c.dims["d"] % spans[name]
            for c in TASK.check
            if c.dtype == name
        )
        for name in TASK.dtypes
    )
    assert any(c.dims["tokens"] > 65535 for c in TASK.check)
    assert any(c.dims["d"] == TASK.dims["d"].max for c in TASK.check)


def test_bench_holds_the_papers_shapes_and_serving_ones() -> None:
    shapes = {(c.dims["tokens"], c.dims["d"]): c.dtype for c, _ in TASK.bench}
    paper = [(16, 4096), (32, 5120), (64, 8192), (16, 12288)]
    assert all(shapes[shape] == "float16" for shape in paper)
    assert {d for _, d in shapes} >= {2304, 3584, 11008, 14336, 18944}
    assert min(shapes)[0] == 1 and max(shapes)[0] == 8192
    few = sum(weight for case, weight in TASK.bench if case.dims["tokens"] <= 128)
    assert few > sum(weight for _, weight in TASK.bench) / 2


@pytest.mark.parametrize("name", shipped.sound(TASK, SCRIPT))
def test_kernel_exports_the_prototype(name: str, tmp_path: Path) -> None:
    shipped.require_prototype(TASK, KERNELS[name], tmp_path)


def test_another_prototype_would_be_noticed(tmp_path: Path) -> None:
    other = TASK.baseline.replace("int64_t d,\n", "int d,\n")
    assert other != TASK.baseline
    built = shipped.compiled(TASK, other, tmp_path)
    assert built.returncode != 0 and TASK.entry in built.stderr


@pytest.mark.parametrize("name", shipped.broken(SCRIPT))
def test_broken_kernel_fails_at_one_name_that_the_fixer_repairs(name: str, tmp_path: Path) -> None:
    built = shipped.compiled(TASK, KERNELS[name], tmp_path)
    assert built.returncode != 0
    (missing,) = set(re.findall(r'identifier "(\w+)" is undefined', built.stderr))
    turns = shipped.scripted_turns(SCRIPT)
    at = next(i for i, t in enumerate(turns) if f"script/{t.name}" == name)
    repaired = SCRIPT.sources[turns[at + 1].name]
    assert missing not in repaired
    assert repaired == SCRIPT.sources[turns[at].name].replace(missing, "__bfloat1622float2")


@pytest.mark.parametrize("dtype", TASK.dtypes)
def test_reference_is_silu_times_up(dtype: str) -> None:
    """Against x / 2 (1 + tanh(x / 2)) up, another formula, in NumPy."""
    module, kind = shipped.reference(TASK), getattr(torch, dtype)
    case = DrawnCase({"tokens": 5, "d": 24}, kind, "normal")
    inputs = module.make_inputs(case, torch.Generator().manual_seed(3))
    again = module.make_inputs(case, torch.Generator().manual_seed(3))
    x = inputs["input"]
    assert x.shape == (5, 48) and x.dtype == kind and torch.equal(x, again["input"])
    (out,) = module.reference(inputs).values()
    assert out.dtype == torch.float64 and out.shape == (5, 24)
    rows = x.double().numpy()
    gate, up = rows[:, :24], rows[:, 24:]
    np.testing.assert_allclose(out, gate / 2 * (1 + np.tanh(gate / 2)) * up, rtol=1e-12)


def test_reference_at_the_edges_is_the_formula() -> None:
    inf, nan = float("inf"), float("nan")
    gate = torch.tensor([inf, -inf, nan, -1000.0, 1000.0, 0.0, 1.0])
    up = torch.tensor([2.0, 2.0, 2.0, 2.0, 2.0, inf, -inf])
    out = shipped.reference(TASK).reference({"input": torch.cat([gate, up]).reshape(1, -1)})["out"][
        0
    ]
    expected = torch.tensor([inf, nan, nan, -0.0, 2000.0, nan, -inf], dtype=torch.float64)
    torch.testing.assert_close(out, expected, equal_nan=True)


@pytest.fixture(scope="module", params=["virtual", pytest.param("cuda", marks=pytest.mark.gpu)])
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    """On the virtual GPU with few cases to check, on a real one with all of them."""
    device = pick_device(request.param)
    tails = tuple(
        c for c in TASK.check if c.dims in ({"tokens": 7, "d": 8200}, {"tokens": 2, "d": 9472})
    )
    task = TASK if device.kind == "cuda" else TASK.model_copy(update={"check": tails})
    with Judge(task, device) as made:
        yield made


@pytest.mark.second_tier
@pytest.mark.parametrize("turn", shipped.scripted_turns(SCRIPT), ids=lambda turn: turn.name)
def test_scripted_kernel_comes_to_what_the_script_expects(
    turn: ScriptedKernel, judge: Judge
) -> None:
    basis: Basis = "measured" if judge.device.kind == "cuda" else "estimated"
    assert verdict(
        shipped.unwarned(judge.evaluate(SCRIPT.sources[turn.name])).outcome
    ) == turn.expects.on(basis)


@pytest.mark.second_tier
def test_papers_start_is_right_and_slower(judge: Judge) -> None:
    assert (
        verdict(shipped.unwarned(judge.evaluate((TASK.folder / "paper.cu").read_text())).outcome)
        == "slower"
    )


def test_script_keeps_its_form() -> None:
    shipped.require_no_figures(SCRIPT)
    shipped.require_story(TASK, SCRIPT)
    shipped.require_anchors(TASK, SCRIPT)
    shipped.require_new_cases(TASK, SCRIPT)
    shipped.require_end(SCRIPT)
