"""A PyTorch module becomes a task: plain kernels, judged against the module itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.judge import Judge
from astra_chat.tools.new.create import new_task
from astra_chat.tools.new.module import is_module
from astra_chat.tools.new.unfinished import launcher_problem, marks
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.types import Correct, Wrong
from astra_vgpu.ground.errors import BadInput
from tests.tools.new.module_samples import HEAD, MODULES, REFUSED


def _new(name: str, text: str, folder: Path) -> Path:
    file = folder / "problem.py"
    file.write_text(HEAD + text)
    made, origin, _ = new_task(name, [file], folder=folder / name)
    assert origin == "problem.py, a PyTorch module"
    return made


def test_sizes_that_the_module_fixes_are_named(tmp_path: Path) -> None:
    file = tmp_path / "problem.py"
    file.write_text(HEAD + MODULES["rms_norm"])
    _, _, notes = new_task("rms", [file], folder=tmp_path / "rms")
    assert notes == ("x: the module allows only one value for the size 96, so no case varies it",)


@pytest.mark.second_tier
@pytest.mark.parametrize("name", MODULES)
def test_its_plain_kernels_give_what_the_module_gives(name: str, tmp_path: Path) -> None:
    folder = _new(name, MODULES[name], tmp_path)
    task = load_task(folder)
    assert not marks(folder) and launcher_problem(task) is None
    with Judge(task, pick_device("virtual")) as judge:
        assert isinstance(judge.check(task.baseline).outcome, Correct)


@pytest.mark.second_tier
def test_a_kernel_that_takes_the_weights_of_init_is_wrong(tmp_path: Path) -> None:
    task = load_task(_new("rms_norm", MODULES["rms_norm"], tmp_path))
    assert [arg.name for arg in task.args if arg.weight] == ["weight"]
    source = task.baseline
    read = next(line for line in source.splitlines() if "= weight[" in line)
    lazy = source.replace(read, read.partition("=")[0] + "= 1.0f;")
    with Judge(task, pick_device("virtual")) as judge:
        assert isinstance(judge.check(lazy).outcome, Wrong)


def test_an_operator_without_a_plain_kernel_is_left_to_the_user(tmp_path: Path) -> None:
    text = MODULES["smooth_l1"].replace("F.smooth_l1_loss(a, b)", "torch.logcumsumexp(a + b, 1)")
    folder = _new("other", text, tmp_path)
    assert "no plain kernel is known for logcumsumexp" in marks(folder)[0]
    assert launcher_problem(load_task(folder)) is None


def test_a_refusal_and_an_error_of_the_file_are_one_line(tmp_path: Path) -> None:
    said = next(iter(REFUSED))
    with pytest.raises(BadInput, match=rf"^problem\.py: {said}[^\n]*$"):
        _new("other", REFUSED[said], tmp_path)
    with pytest.raises(BadInput, match=r"^problem\.py, line \d+: NameError: [^\n]*$"):
        _new("other", MODULES["rms_norm"].replace("torch.rsqrt", "rsqrt"), tmp_path)
    assert not (tmp_path / "other").exists()


def test_a_triton_file_is_no_module(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text("class Model: pass\n")
    assert not is_module(file)
