"""The launcher of a [binding]: what it hands over, and what a file is told that does not fit."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from astra_chat.tools.build.bound_launcher import launcher_text, needs_launcher
from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.new.unfinished import launcher_problem
from astra_chat.tools.plan.record import called_once, record_each
from astra_chat.tools.plan.report import failure_text
from astra_chat.tools.policy.binary_audit import audit_beside
from astra_chat.tools.policy.source_guard import guard_beside
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import BuildFailed, Refused
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import spec

Changed = Callable[..., Task]


@pytest.fixture
def changed(tmp_path: Path) -> Changed:
    """The task of bound_task/ with one text of its task.toml replaced."""

    def made(old: str = "", new: str = "") -> Task:
        folder = tmp_path / "task"
        shutil.copytree(Path(__file__).parent / "bound_task", folder, dirs_exist_ok=True)
        text = (folder / "task.toml").read_text()
        assert old in text
        (folder / "task.toml").write_text(text.replace(old, new))
        return load_task(folder)

    return made


def built(task: Task, source: str) -> Build:
    made = build(task, source, pick_device("virtual"))
    assert isinstance(made, Build), made
    return made


def said(task: Task, source: str) -> str:
    calls = called_once(built(task, source), task, task.check, spec("h200"), random.Random(1))
    assert isinstance(calls, tuple)
    return failure_text(calls[0]) if calls[0].status else calls[0].said


def test_tensors_are_built_from_the_contract(changed: Changed) -> None:
    task = changed()
    text = launcher_text(task, task.baseline)
    assert (
        '::astra::tensor("x", x, dtype, {int64_t(rows), int64_t(width)}, {x_stride, int64_t{1}})'
        in text
    )
    assert (
        '::astra::Value("mean")' in text and "::astra::Value(static_cast<double>(factor))" in text
    )
    assert needs_launcher(task, task.baseline)
    assert not needs_launcher(task, f'extern "C" cudaError_t {task.entry}() {{}}')


def test_a_call_is_recorded_and_says_what_it_makes(changed: Changed) -> None:
    task = changed()
    lines = said(task, task.baseline).splitlines()
    assert lines == ["allocates 6 [3]", "allocates 5 [3]", "returns 1"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('{ text = "mean" }', '{ text = "sum" }', "mode sum is not known"),
        ('{ text = "mean" }, ', "", "takes 3 arguments, but .* passes 2"),
        ('{ text = "mean" }', "1", "an integer is passed for a parameter that is a string"),
        (
            'shape = ["rows"], access = "write"',
            'shape = ["rows", "1"], access = "write"',
            "result 0 is made as",
        ),
        ('operator = "row_means"', 'operator = "other"', "registers no operator other"),
    ],
)
def test_what_does_not_fit_is_said(changed: Changed, old: str, new: str, words: str) -> None:
    task = changed(old, new)
    assert re.search(words, said(task, task.baseline))


def test_lists_of_tensors_are_handed_over(changed: Changed) -> None:
    task = changed('args = ["x",', 'args = [{ tensors = [["x"], ["x"]] }, { tensors = ["x"] },')
    start, end = task.baseline.split("PYBIND11_MODULE")
    source = f"""{start}
at::Tensor lists(std::vector<std::vector<at::Tensor>> all, at::TensorList some,
                 const std::string& mode, double factor) {{
  TORCH_CHECK(all.size() == 2 && all[1].size() == 1 && some.size() == 1);
  TORCH_CHECK(all[1][0].data_ptr() == some[0].data_ptr());
  return row_means(some[0], mode, factor);
}}
PYBIND11_MODULE{end.replace("&row_means", "&lists")}"""
    assert "returns 1" in said(task, source)


def test_names_that_the_contract_lacks_are_refused(changed: Changed) -> None:
    with pytest.raises(
        BadInput, match="'absent' is not an argument, dim or scalar of the contract"
    ):
        changed('args = ["x"', 'args = ["absent"')


@pytest.mark.parametrize(
    "call", ["x.item<float>()", "at::mm(x, x)", "torch::exp(x)", "x.sum(0)", "2 * x"]
)
def test_what_is_not_there_is_an_error_of_the_compiler(changed: Changed, call: str) -> None:
    task = changed()
    source = task.baseline.replace("const int rows =", f"(void){call}; const int rows =")
    made = build(task, source, pick_device("virtual"))
    assert isinstance(made, BuildFailed) and "is not implemented: " in made.log


def test_a_candidate_is_held_to_the_policy_where_it_differs(changed: Changed) -> None:
    task = changed()
    known = built(task, task.baseline)
    assert guard_beside(task.baseline, task, task.baseline) == ()
    better = task.baseline.replace("128, 0, stream", "64, 0, stream")
    assert better != task.baseline and guard_beside(better, task, task.baseline) == ()
    assert audit_beside(built(task, better), task, better, known) == ()
    worse = better.replace("const int rows =", 'std::system("true"); const int rows =')
    assert [f.line for f in guard_beside(worse, task, task.baseline)] == [
        1 + worse.split("std::system")[0].count("\n")
    ]
    assert any("system" in f.what for f in audit_beside(built(task, worse), task, worse, known))


@pytest.mark.parametrize("kind", ["operator", "function"])
def test_a_misspelled_name_is_one_sentence_with_the_one_that_was_meant(
    changed: Changed, kind: str
) -> None:
    """A candidate has it, or a task.toml that was written by hand."""
    task = changed('operator = "row_means"', f'{kind} = "row_means"')
    (finding,) = guard_beside(task.baseline.replace("row_means", "row_meanz"), task, task.baseline)
    assert finding.what == (
        f"the file has no {kind} row_means, which [binding] in task.toml calls;"
        " did you mean row_meanz?"
    )
    wrong = changed('operator = "row_means"', f'{kind} = "row_meen"')
    assert launcher_problem(wrong) == (
        f"baseline.cu has no {kind} row_meen, which [binding] in task.toml calls;"
        " did you mean row_means?"
    )
    assert launcher_problem(task) is None


def test_work_on_the_default_stream_is_refused_with_the_way_out(changed: Changed) -> None:
    task = changed()
    source = task.baseline.replace("128, 0, stream>>>", "128>>>")
    plans = record_each(built(task, source), task, task.check, spec("h200"), random.Random(1))
    assert isinstance(plans, Refused)
    assert "set default_stream = true under [binding]" in plans.findings[0].what
    allowed = changed("[binding]\n", "[binding]\ndefault_stream = true\n")
    plans = record_each(built(allowed, source), allowed, task.check, spec("h200"), random.Random(1))
    assert isinstance(plans, tuple)


def test_a_template_is_chosen_by_the_dtype_and_launcher_cu_follows_the_file(
    changed: Changed,
) -> None:
    bound = (
        'function = "ns::go<T, 4>"\nlauncher = "launcher.cu"\nargs = ["out", "x", { code = "T" }]'
    )
    old = 'operator = "row_means"\nargs = ["x", { text = "mean" }, "factor"]\nreturns = ["out"]'
    with pytest.raises(BadInput, match=r"launcher\.cu is not in the task's folder"):
        changed(old, bound)
    task = changed()
    (task.folder / "launcher.cu").write_text("namespace ns { // mine\n}\n")
    task = changed(old, bound)
    text = launcher_text(task, task.baseline)
    assert text.index('#line 1 "launcher.cu"\nnamespace ns') < text.index('extern "C"')
    for code, name in ((1, "__half"), (0, "float")):
        assert f"if (dtype == {code}) return ::astra::require_returned(::astra::invoke(" in text
        assert f"&::ns::go<{name}, 4>, astra_values)" in text
    assert "::astra::Value(int64_t(dtype))" in text


def test_macros_of_the_file_do_not_reach_the_launcher(changed: Changed) -> None:
    old = 'operator = "row_means"\nargs = ["x", { text = "mean" }, "factor"]\nreturns = ["out"]'
    task = changed(old, 'function = "go"\nargs = ["out", "x", "rows", {}]')
    text = launcher_text(task, "#define min(a, b) a\n #def\\\nine rows 4\n#define go went\n")
    kept = (
        '#undef go\n#undef min\n#undef rows\n#include <astra/launcher.h>\n#pragma pop_macro("go")'
    )
    assert f'#pragma push_macro("go")\n{kept}\nextern "C"' in text
