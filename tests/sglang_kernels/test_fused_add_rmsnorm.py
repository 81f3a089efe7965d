"""The task fused_add_rmsnorm: its contract, its reference, and the kernels of its script."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from astra_chat.models.script import ScriptedKernel, load_script
from astra_chat.tools.check.hidden_cases import draw
from astra_chat.tools.judge import Judge
from astra_chat.tools.runners.values import DrawnCase
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.types import ITEM_BYTES, Timed, Wrong
from tests.sglang_kernels import shipped

TASK = find_task("fused_add_rmsnorm")
SCRIPT = load_script(TASK)
KERNELS = shipped.kernels(TASK)


def test_prototype_takes_both_row_strides_and_eps() -> None:
    assert prototype(TASK) == (
        'extern "C" cudaError_t fused_add_rmsnorm(void* input, void* residual, const void* weight,'
        " int64_t tokens, int64_t h, int64_t input_stride, int64_t residual_stride, float eps,"
        " int dtype, cudaStream_t stream)"
    )


def test_hidden_cases_vary_eps() -> None:
    """LLaMA has 1e-5, Qwen 1e-6: a kernel that knows the usual one by heart is wrong elsewhere."""
    (eps,) = TASK.scalars
    drawn = {c.scalars["eps"] for n in range(9) for c in draw(TASK, "virtual", random.Random(n))}
    assert drawn > {1e-6, 1e-5, 1e-2} == {eps.value, *eps.others} and eps.range == (1e-8, 0.1)


def test_cases_cover_what_breaks_kernels() -> None:
    """Every dtype and family, rows off any vector, rows past a block, strides, a grid's limits."""
    assert {c.dtype for c in TASK.check} == set(TASK.dtypes)
    assert {c.values for c in TASK.check} >= {
        "normal",
        "large",
        "tiny",
        "ramp",
        "one_hot",
        "special",
    }
    vector = {name: 16 // size for name, size in ITEM_BYTES.items()}
    assert any(c.dims["h"] % 2 for c in TASK.check)
    assert any(0 < c.dims["h"] % vector[c.dtype] and c.dims["h"] % 2 == 0 for c in TASK.check)
    assert any(c.dims["h"] > 1024 * vector[c.dtype] for c in TASK.check)
    assert any(c.dims["tokens"] > 65535 for c in TASK.check)
    assert any(c.dims["h"] == TASK.dims["h"].max for c in TASK.check)
    assert {c.pad % vector[c.dtype] == 0 for c in TASK.check if c.pad} == {True, False}
    assert any(c.pads.get("input") != c.pads.get("residual") for c in TASK.check)


def test_bench_holds_the_papers_shapes_and_serving_ones() -> None:
    shapes = {(c.dims["tokens"], c.dims["h"]): c.dtype for c, _ in TASK.bench}
    paper = [(256, 4096), (1024, 4096), (128, 11008), (512, 14336)]
    assert all(shapes[shape] == "float16" for shape in paper)
    assert {h for _, h in shapes} >= {2048, 4096, 5120, 7168, 8192}
    assert min(shapes)[0] == 1 and max(shapes)[0] == 8192
    few = sum(weight for case, weight in TASK.bench if case.dims["tokens"] <= 256)
    assert few > sum(weight for _, weight in TASK.bench) / 2


@pytest.mark.parametrize("name", shipped.sound(TASK, SCRIPT))
def test_kernel_exports_the_prototype(name: str, tmp_path: Path) -> None:
    shipped.require_prototype(TASK, KERNELS[name], tmp_path)


def test_broken_kernel_fails_where_the_fixer_repairs_it(tmp_path: Path) -> None:
    built = shipped.compiled(TASK, KERNELS["script/streaming.cu"], tmp_path)
    assert built.returncode != 0
    assert 'overloaded function "__stcs"' in built.stderr and "Numbers" in built.stderr
    repaired = SCRIPT.sources["streaming.cu"].replace("threads, b);", "threads, b.bits());")
    assert repaired == SCRIPT.sources["streaming.cu, edited"]


@pytest.mark.parametrize("dtype", TASK.dtypes)
def test_reference_is_a_norm_of_the_sum(dtype: str) -> None:
    """Against numpy.linalg.norm, another way to the same number."""
    module, kind = shipped.reference(TASK), getattr(torch, dtype)
    case = DrawnCase({"tokens": 5, "h": 24}, kind, "normal")
    inputs = module.make_inputs(case, torch.Generator().manual_seed(3))
    again = module.make_inputs(case, torch.Generator().manual_seed(3))
    assert all(torch.equal(inputs[name], again[name]) for name in inputs)
    assert {name: (tuple(t.shape), t.dtype) for name, t in inputs.items()} == {
        "input": ((5, 24), kind),
        "residual": ((5, 24), kind),
        "weight": ((24,), kind),
    }
    x, r, w = (inputs[name].double().numpy() for name in ("input", "residual", "weight"))
    found = module.reference(inputs | {"eps": torch.tensor(1e-6).double()})
    norm = np.linalg.norm(x + r, axis=1, keepdims=True) / np.sqrt(24)
    np.testing.assert_array_equal(found["residual"], x + r)
    np.testing.assert_allclose(found["input"], (x + r) * w / np.sqrt(norm**2 + 1e-6), rtol=1e-12)


def test_reference_at_the_edges_overflows_as_fp32_does() -> None:
    """Infinity in a row makes its other elements zero; squares beyond fp32 do so to all."""
    inf, nan, large = float("inf"), float("nan"), 3e38
    x = torch.tensor([[inf, 1.0], [nan, 1.0], [large, 1.0], [large, 1.0], [0.0, 0.0]])
    r = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [large, 0.0], [0.0, 0.0]])
    given = {"input": x, "residual": r, "weight": torch.ones(2), "eps": torch.tensor(1e-6)}
    found = shipped.reference(TASK).reference(given)
    expected = torch.tensor(
        [[nan, 0.0], [nan, nan], [0.0, 0.0], [nan, 0.0], [0.0, 0.0]], dtype=torch.float64
    )
    torch.testing.assert_close(found["input"], expected, equal_nan=True)
    assert found["residual"][3, 0] == inf


@pytest.fixture(scope="module", params=["virtual", pytest.param("cuda", marks=pytest.mark.gpu)])
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    """On the virtual GPU with few cases, on a real one with all of them."""
    device = pick_device(request.param)
    few = tuple(c for c in TASK.check if c.dims["h"] in (111, 500, 516, 1032, 4100))
    quick = TASK.model_copy(update={"check": few, "demo": TASK.demo[2:3]})
    with Judge(TASK if device.kind == "cuda" else quick, device) as made:
        yield made


@pytest.mark.second_tier
@pytest.mark.parametrize("turn", shipped.scripted_turns(SCRIPT), ids=lambda turn: turn.name)
def test_scripted_kernel_comes_to_what_the_script_expects(
    turn: ScriptedKernel, judge: Judge
) -> None:
    shipped.require_verdict(judge, SCRIPT, turn)


@pytest.mark.second_tier
def test_residual_left_as_it_was_is_found(judge: Judge) -> None:
    found = judge.check(SCRIPT.sources["in_registers.cu"]).outcome
    assert isinstance(found, Wrong) and found.argument == "residual"


@pytest.mark.second_tier
def test_papers_start_is_slower(judge: Judge) -> None:
    found = shipped.unwarned(judge.evaluate((TASK.folder / "paper.cu").read_text())).outcome
    assert isinstance(found, Timed) and found.verdict == "slower"


def test_script_keeps_its_form() -> None:
    shipped.require_no_figures(SCRIPT)
    shipped.require_story(TASK, SCRIPT)
    shipped.require_anchors(TASK, SCRIPT)
    shipped.require_new_cases(TASK, SCRIPT)
    shipped.require_end(SCRIPT)
