"""The task silu_and_mul: its contract, its reference, and the kernels and words of its script."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from astra_chat.agents.words import verdict
from astra_chat.models.script import Script, ScriptedKernel, load_script
from astra_chat.tools.children.values import DrawnCase
from astra_chat.tools.contract import prototype
from astra_chat.tools.devices import pick_device
from astra_chat.tools.guard import guard
from astra_chat.tools.judge import Judge
from astra_chat.tools.tasks import find_task
from astra_chat.tools.toolkit import find_toolkit
from astra_chat.tools.types import ITEM_BYTES, Case

TASK = find_task("silu_and_mul")
SCRIPT = load_script(TASK)
KERNELS = {p.relative_to(TASK.folder).as_posix(): p for p in sorted(TASK.folder.rglob("*.cu"))}
CODE = re.compile(r"`[^`]*`")


def scripted_turns(script: Script) -> list[ScriptedKernel]:
    return [turn for one in script.rounds for turn in (one.coder, *one.fixer)]


BROKEN = {f"script/{t.file}" for t in scripted_turns(SCRIPT) if t.expects == "build_failed"}


def compiled(kernel: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """nvcc to PTX, with the contract's prototype declared before the file."""
    unit = folder / "unit.cu"
    unit.write_text(
        f'#include <cstdint>\n#include <cuda_runtime.h>\n{prototype(TASK)};\n#include "{kernel}"\n'
    )
    target = folder / "unit.ptx"
    command = [
        str(find_toolkit().nvcc),
        "-ptx",
        "-arch=compute_90",
        *TASK.flags,
        "-o",
        str(target),
        str(unit),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", TASK.folder / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_cases_cover_what_breaks_kernels() -> None:
    """Every dtype and value family, tails of the baseline's block, and a grid's limits."""
    assert {c.dtype for c in TASK.check} == set(TASK.dtypes)
    assert {c.values for c in TASK.check} == {
        "normal", "large", "tiny", "ramp", "one_hot", "special",
    }  # fmt: skip
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


@pytest.mark.parametrize("name", [n for n in KERNELS if n not in BROKEN])
def test_kernel_exports_the_prototype(name: str, tmp_path: Path) -> None:
    built = compiled(KERNELS[name], tmp_path)
    assert built.returncode == 0, built.stderr
    ptx = (tmp_path / "unit.ptx").read_text()
    assert ptx.count(".entry") >= len(TASK.dtypes)
    assert guard(KERNELS[name].read_text(), TASK.entry) == ()


def test_another_prototype_would_be_noticed(tmp_path: Path) -> None:
    other = tmp_path / "other.cu"
    other.write_text(TASK.baseline.replace("int64_t d,\n", "int d,\n"))
    assert other.read_text() != TASK.baseline
    built = compiled(other, tmp_path)
    assert built.returncode != 0 and TASK.entry in built.stderr


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_broken_kernel_fails_at_one_name_that_the_fixer_repairs(name: str, tmp_path: Path) -> None:
    built = compiled(KERNELS[name], tmp_path)
    assert built.returncode != 0
    (missing,) = set(re.findall(r'identifier "(\w+)" is undefined', built.stderr))
    turns = scripted_turns(SCRIPT)
    at = next(i for i, t in enumerate(turns) if f"script/{t.file}" == name)
    repaired = SCRIPT.sources[turns[at + 1].file]
    assert missing not in repaired
    assert repaired == SCRIPT.sources[turns[at].file].replace(missing, "__bfloat1622float2")


@pytest.mark.parametrize("dtype", TASK.dtypes)
def test_reference_is_silu_times_up(dtype: str) -> None:
    """Against x / 2 (1 + tanh(x / 2)) up, another formula, in NumPy."""
    module, kind = reference(), getattr(torch, dtype)
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
    out = reference().reference({"input": torch.cat([gate, up]).reshape(1, -1)})["out"][0]
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


@pytest.mark.parametrize("turn", scripted_turns(SCRIPT), ids=lambda turn: turn.file)
def test_scripted_kernel_comes_to_what_the_script_expects(
    turn: ScriptedKernel, judge: Judge
) -> None:
    assert verdict(judge.evaluate(SCRIPT.sources[turn.file]).outcome) == turn.expects


def test_papers_start_is_right_and_slower(judge: Judge) -> None:
    assert verdict(judge.evaluate((TASK.folder / "paper.cu").read_text()).outcome) == "slower"


def words_of(script: Script) -> Iterator[str]:
    for suite in script.testers:
        yield from (suite.words, *(case.why for case in suite.cases))
    for one in script.rounds:
        yield from (one.plan.title, one.plan.change, one.plan.why, one.coder.words)
        yield from (repair.words for repair in one.fixer)
        assert one.profiler is not None
        yield one.profiler.words


def test_script_words_hold_no_figures() -> None:
    """Names of code between backquotes may hold digits; figures are fields."""
    for words in words_of(SCRIPT):
        assert not re.search(r"\d", CODE.sub("", words)), words


def test_script_tells_of_a_failed_build_a_wrong_result_and_gains() -> None:
    turns = scripted_turns(SCRIPT)
    expected = [turn.expects for turn in turns]
    assert len(SCRIPT.rounds) >= 4
    assert {"build_failed", "wrong"} <= set(expected) and expected.count("accepted") >= 2
    assert all(one.fixer[-1].expects == "accepted" for one in SCRIPT.rounds if one.fixer)
    used = {f"script/{turn.file}" for turn in turns}
    assert used == {name for name in KERNELS if name.startswith("script/")}
    assert len({SCRIPT.sources[turn.file] for turn in turns}) == len(turns)


def test_script_plans_name_places_in_sources_that_came_before() -> None:
    seen = [TASK.baseline]
    for one in SCRIPT.rounds:
        assert any(one.plan.anchor in source for source in seen), one.plan.anchor
        seen += [SCRIPT.sources[turn.file] for turn in (one.coder, *one.fixer)]


def test_script_cases_are_legal_and_not_the_tasks_own() -> None:
    known = {case.label for case in TASK.check}
    cases: list[Case] = [test.case() for suite in SCRIPT.testers for test in suite.cases]
    assert cases
    for case in cases:
        TASK.require_legal(case)
        assert case.label not in known


def test_script_ends_by_itself_and_leaves_choices_to_the_selector() -> None:
    following = [one.profiler.next for one in SCRIPT.rounds if one.profiler]
    assert following[-1] == "stop" and "stop" not in following[:-1]
    assert following.count("unsure") == len(SCRIPT.choices) > 0
    assert len(SCRIPT.testers) == 1 + SCRIPT.choices.count("tester")
