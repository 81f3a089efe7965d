"""What a call costs the host: the script of every task can be read, and on a GPU one is run."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from astra_chat.session.export_example import call_arguments, example_source
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task, task_names
from lab import measure_calls as module


@pytest.mark.parametrize("name", task_names())
def test_the_script_calls_the_kernel_as_the_example_does(name: str) -> None:
    task = find_task(name)
    called = f"module.{task.entry}({call_arguments(task)})"
    assert called in example_source(task)
    script = module.CHILD.format(entry=task.entry, arguments=call_arguments(task))
    ast.parse(script)
    assert called in script and f"torch.ops.astra.{task.entry}" in script


@pytest.mark.parametrize(
    ("options", "words"), [((), "add --trust"), (("--trust", "--device", "x"), "unrecognized")]
)
def test_what_cannot_be_measured_is_told_in_a_line(options: tuple[str, ...], words: str) -> None:
    command = [sys.executable, "-m", module.__name__, "silu_and_mul", "nowhere.cu", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and words in done.stderr.splitlines()[-1]


@pytest.mark.gpu
def test_a_call_by_each_way_on_a_gpu() -> None:
    task = find_task("silu_and_mul")
    table = module.measure(task, task.baseline, pick_device("cuda"))
    found = {
        way: float(us)
        for way, us in re.findall(r"^\| (.+?) \| [\d.]+ \| ([\d.]+) \|$", table, re.M)
    }
    assert set(found) == {"tvm-ffi", "PyTorch operator", "torch.compile", "CUDA graph of 100"}
    assert all(us > 0 for us in found.values())
