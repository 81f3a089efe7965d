"""Extensions on a GPU: built by nvcc, checked, timed as graphs beside the module."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.judge import Judge
from astra_chat.tools.new.create import new_task
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.timing.module_times import BesideModule
from astra_chat.tools.types import Refused, Timed, Wrong
from tests.tools.extension.samples import FUSED, MODULE

pytestmark = pytest.mark.gpu
LIBRARY_ONLY = FUSED.replace("gelu_softmax<<<", "if (h.size(0) < 0) gelu_softmax<<<").replace(
    "return out;", "return at::softmax(at::gelu(h), -1);"
)
STALE = FUSED.replace("h.data_ptr<float>(), out", "linear_weight.data_ptr<float>(), out")


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Task:
    folder = tmp_path_factory.mktemp("module")
    file, text = folder / "problem.py", MODULE
    for name, size in {"rows": 512, "wide": 1024, "out": 1024}.items():
        text = text.replace(f"{{{name}}}", str(size))
    file.write_text(text)
    made: Path = new_task("gelu_softmax", [file], folder=folder / "task")[0]
    return load_task(made)


def test_an_extension_is_timed_beside_its_module(module: Task) -> None:
    with Judge(module, pick_device("cuda")) as judge:
        found = judge.beside_module(FUSED, module.bench, 1, "default")
        assert isinstance(found, BesideModule), found
        assert "weaker evidence than a launch plan" in found.trust
        assert [one.not_run for one in found.times] == [""] * 4
        evaluation = judge.evaluate(FUSED)
    assert isinstance(evaluation.outcome, Timed), evaluation.outcome
    assert evaluation.outcome.ratio > 1 and "torch.compile, CUDA graph" in evaluation.outcome.why
    assert evaluation.trust == found.trust


def test_wrong_results_are_found(module: Task) -> None:
    with Judge(module, pick_device("cuda")) as judge:
        assert isinstance(judge.check(STALE).outcome, Wrong | Refused)
        assert isinstance(judge.check(LIBRARY_ONLY).outcome, Refused)
