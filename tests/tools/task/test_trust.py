"""Astra's own files run anywhere; one changed letter makes a file a stranger's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from astra_chat.tools.judge import Judge
from astra_chat.tools.sandbox import isolation as level
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import BUILTIN, find_task, load_task
from astra_chat.tools.task.trust import acting_files, require_trust
from astra_chat.tools.task_validation import check_task
from astra_vgpu.ground.errors import MissingDependency

TASK = find_task("silu_and_mul")
DEVICE = virtual_device("h200")


@pytest.fixture
def weak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level, "isolation", lambda: "seccomp")


@pytest.mark.usefixtures("weak")
def test_a_strange_text_needs_isolation_or_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    own, strange = TASK.baseline, TASK.baseline + " "
    require_trust(False, own, *acting_files(TASK))
    require_trust(True, own, strange)
    with pytest.raises(MissingDependency, match="--trust"):
        require_trust(False, own, strange)
    monkeypatch.setattr(level, "isolation", lambda: "landlock")
    require_trust(False, own, strange)


@pytest.mark.usefixtures("weak")
@pytest.mark.parametrize("name", ["task.toml", "reference.py", "baseline.cu"])
def test_each_file_of_a_task_that_acts_counts(tmp_path: Path, name: str) -> None:
    """reference.py runs, flags go to nvcc, the baseline is built and run beside any candidate."""
    shutil.copytree(BUILTIN / "silu_and_mul", tmp_path / "task")
    same = load_task(tmp_path / "task")
    Judge(same, DEVICE).close()
    with (tmp_path / "task" / name).open("a") as file:
        file.write("\n")
    strange = load_task(tmp_path / "task")
    with pytest.raises(MissingDependency, match="--trust"):
        Judge(strange, DEVICE)
    with pytest.raises(MissingDependency, match="--trust"):
        check_task(strange, DEVICE)
    Judge(strange, DEVICE, trust=True).close()
