"""The task merge_state_v2: its contract, its reference, and the kernels of its script."""

from __future__ import annotations

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
from astra_chat.tools.types import Wrong
from tests.sglang_kernels import shipped

TASK = find_task("merge_state_v2")
SCRIPT = load_script(TASK)
KERNELS = shipped.kernels(TASK)


def test_both_results_are_compared() -> None:
    assert [arg.name for arg in TASK.args if arg.written] == ["v_merged", "s_merged"]


def test_cases_cover_what_breaks_kernels() -> None:
    """Every dtype and family, heads of any number of packs, odd heads, a grid's limits."""
    assert {c.dtype for c in TASK.check} == set(TASK.dtypes)
    assert {c.values for c in TASK.check} >= {
        "normal",
        "large",
        "tiny",
        "ramp",
        "one_hot",
        "special",
    }
    assert {c.dtype for c in TASK.check if c.values == "special"} == set(TASK.dtypes)
    assert any(c.dims["d"] & (c.dims["d"] - 1) for c in TASK.check)
    assert any(c.dims["h"] % 2 for c in TASK.check)
    assert any(c.dims["n"] > 65535 for c in TASK.check)
    assert {name: max(c.dims[name] for c in TASK.check) for name in ("h", "d")} == {
        name: TASK.dims[name].max for name in ("h", "d")
    }


def test_bench_holds_the_papers_shapes_and_serving_ones() -> None:
    shapes = {tuple(c.dims.values()): c.dtype for c, _ in TASK.bench}
    paper = [(512, 32, 256), (512, 40, 128), (768, 32, 256), (512, 64, 128)]
    assert all(shapes[shape] == "float16" for shape in paper)
    assert {shape[1] for shape in shapes} >= {8, 16, 32, 64, 128}
    assert min(shapes)[0] == 1 and max(shapes)[0] == 8192
    few = sum(weight for case, weight in TASK.bench if case.dims["n"] <= 256)
    assert few > sum(weight for _, weight in TASK.bench) / 2


@pytest.mark.parametrize("name", shipped.sound(TASK, SCRIPT))
def test_kernel_exports_the_prototype(name: str, tmp_path: Path) -> None:
    shipped.require_prototype(TASK, KERNELS[name], tmp_path)


def test_broken_kernel_fails_at_the_operand_that_the_fixer_names_word_by_word(
    tmp_path: Path,
) -> None:
    built = shipped.compiled(TASK, KERNELS["script/past_l1.cu"], tmp_path)
    assert built.returncode != 0
    assert "an asm operand must have scalar type" in built.stderr
    (line,) = set(SCRIPT.sources["past_l1.cu"].splitlines()) - set(
        SCRIPT.sources["past_l1.cu, edited"].splitlines()
    )
    assert '"=r"(bits)' in line


@pytest.mark.parametrize("dtype", TASK.dtypes)
def test_reference_is_a_mean_weighted_by_exponentials(dtype: str) -> None:
    """Against the formula without its maximum, in NumPy."""
    module, kind = shipped.reference(TASK), getattr(torch, dtype)
    case = DrawnCase({"n": 3, "h": 5, "d": 8}, kind, "normal")
    inputs = module.make_inputs(case, torch.Generator().manual_seed(3))
    again = module.make_inputs(case, torch.Generator().manual_seed(3))
    assert all(torch.equal(inputs[name], again[name]) for name in inputs)
    assert {name: (tuple(t.shape), t.dtype) for name, t in inputs.items()} == {
        "v_a": ((3, 5, 8), kind),
        "s_a": ((3, 5), torch.float32),
        "v_b": ((3, 5, 8), kind),
        "s_b": ((3, 5), torch.float32),
    }
    v_a, s_a, v_b, s_b = (inputs[name].double().numpy() for name in ("v_a", "s_a", "v_b", "s_b"))
    a, b = np.exp(s_a)[..., None], np.exp(s_b)[..., None]
    found = module.reference(inputs)
    np.testing.assert_allclose(found["v_merged"], (a * v_a + b * v_b) / (a + b), rtol=1e-12)
    np.testing.assert_allclose(found["s_merged"], np.logaddexp(s_a, s_b), rtol=1e-12)


def test_reference_reads_either_infinity_as_an_empty_side() -> None:
    inf, nan = float("inf"), float("nan")
    s_a = torch.tensor([[inf, -inf, 2.0, inf, -inf, nan]])
    s_b = torch.tensor([[1.0, 1.0, -inf, -inf, -inf, 1.0]])
    v = torch.ones(1, 6, 4)
    found = shipped.reference(TASK).reference({"v_a": v, "s_a": s_a, "v_b": 3 * v, "s_b": s_b})
    expected = torch.tensor([[3.0, 3.0, 1.0, nan, nan, nan]], dtype=torch.float64)
    torch.testing.assert_close(found["v_merged"][..., 0], expected, equal_nan=True)
    expected = torch.tensor([[1.0, 1.0, 2.0, nan, nan, nan]], dtype=torch.float64)
    torch.testing.assert_close(found["s_merged"], expected, equal_nan=True)


def test_special_cases_have_empty_sides_and_normal_values() -> None:
    case = DrawnCase({"n": 31, "h": 8, "d": 16}, torch.float16, "special")
    inputs = shipped.reference(TASK).make_inputs(case, torch.Generator().manual_seed(1))
    empty_a, empty_b = inputs["s_a"].isinf(), inputs["s_b"].isinf()
    assert (empty_a & ~empty_b).any() and (empty_b & ~empty_a).any() and (empty_a & empty_b).any()
    assert (inputs["s_a"] == torch.inf).any() and (inputs["s_b"] == -torch.inf).any()
    assert inputs["v_a"].isfinite().all() and inputs["v_b"].isfinite().all()


@pytest.fixture(scope="module", params=["virtual", pytest.param("cuda", marks=pytest.mark.gpu)])
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    """On the virtual GPU with few cases, on a real one with all of them."""
    device = pick_device(request.param)
    few = tuple(c for c in TASK.check if c.values == "special" or c.dims["d"] in (80, 256))
    quick = TASK.model_copy(update={"check": few, "demo": TASK.demo[3:4]})
    with Judge(TASK if device.kind == "cuda" else quick, device) as made:
        yield made


@pytest.mark.second_tier
@pytest.mark.parametrize("turn", shipped.scripted_turns(SCRIPT), ids=lambda turn: turn.name)
def test_scripted_kernel_comes_to_what_the_script_expects(
    turn: ScriptedKernel, judge: Judge
) -> None:
    shipped.require_verdict(judge, SCRIPT, turn)


@pytest.mark.second_tier
def test_infinity_taken_at_its_word_is_found(judge: Judge) -> None:
    found = judge.check(SCRIPT.sources["logistic.cu"]).outcome
    assert isinstance(found, Wrong) and found.case.values == "special"


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
