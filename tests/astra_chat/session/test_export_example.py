"""The example beside a module: its inputs are the task's own, laid out as the first timed case."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from astra_chat.session.export_example import example_source
from astra_chat.tools.task.folder import Task, find_task

SHOWN = """
import json, sys
sys.path.insert(0, sys.argv[1])
from load_example import inputs
shown = {}
for name, tensor in inputs("cpu").items():
    shown[name] = [list(tensor.shape), list(tensor.stride()), str(tensor.dtype)]
shown["positions"] = inputs("cpu").get("positions", tensor).flatten().tolist()[:100]
print(json.dumps(shown))
"""


def shown(task: Task, folder: Path) -> dict[str, list[object]]:
    (folder / "load_example.py").write_text(example_source(task))
    (folder / "reference.py").write_text((task.folder / "reference.py").read_text())
    done = subprocess.run(
        [sys.executable, "-c", SHOWN, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-1500:]
    found: dict[str, list[object]] = json.loads(done.stdout)
    return found


def test_packed_heads_and_positions(tmp_path: Path) -> None:
    task = find_task("rotary_embedding")
    case, found = task.bench[0][0], shown(task, tmp_path)
    for arg in task.args[1:]:
        layout = [list(arg.shape_of(case)), list(arg.strides_of(case)), "torch.bfloat16"]
        assert found[arg.name] == layout
    assert found["positions"] == [0]
    assert "tensors['cos_sin_cache'], 8, True)" in example_source(task), "key may be absent"


@pytest.mark.parametrize("name", ["silu_and_mul", "merge_state_v2"])
def test_shipped_tasks(name: str, tmp_path: Path) -> None:
    task = find_task(name)
    assert {arg.name for arg in task.args} <= set(shown(task, tmp_path))
