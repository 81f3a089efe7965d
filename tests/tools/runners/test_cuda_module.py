"""A module beside a candidate on a GPU: four baselines, and results of timed launches compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.judge import Judge
from astra_chat.tools.new.create import new_task
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.timing.module_times import BesideModule
from astra_chat.tools.types import Wrong
from lab.module_problems import PROBLEMS

pytestmark = pytest.mark.gpu


def _task(folder: Path, name: str) -> Task:
    file = folder / "problem.py"
    file.write_text(PROBLEMS[name].text)
    return load_task(new_task(name, [file], folder=folder / name)[0])


@pytest.mark.parametrize("name", ["layer_norm", "mlp"])
def test_all_baselines_are_timed(name: str, tmp_path: Path) -> None:
    task = _task(tmp_path, name)
    with Judge(task, pick_device("cuda")) as judge:
        found = judge.beside_module(judge.baseline, task.bench, 2, "default")
    assert isinstance(found, BesideModule), found
    assert [one.not_run for one in found.times] == [""] * 4
    assert [len(one.compilations_us) for one in found.times] == [0, 0, 2, 2]


def test_wrong_results_of_timed_launches_are_seen(tmp_path: Path) -> None:
    task = _task(tmp_path, "bias_gelu")
    wrong = task.baseline.replace("0.5f", "0.4999f", 1)
    assert wrong != task.baseline
    with Judge(task, pick_device("cuda")) as judge:
        assert isinstance(judge.beside_module(wrong, task.bench, 0, "default"), Wrong)
