"""astra-chat capture on the command line."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from astra_chat.cli.main import app
from astra_chat.tools.capture.calls import read_calls
from astra_chat.tools.task.folder import BUILTIN, load_task
from astra_vgpu.ground.errors import BadInput

ACTS = """
import torch
def silu(x):
    half = x.shape[-1] // 2
    return torch.nn.functional.silu(x[..., :half]) * x[..., half:]
"""
PROGRAM = """
import torch, acts
for tokens in (1, 1, 16):
    acts.silu(torch.ones(tokens, 128))
raise SystemExit(5)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "acts.py").write_text(ACTS)
    (tmp_path / "main.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    root = str(Path(__file__).parents[3])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), root]))
    return tmp_path


def test_calls_become_the_bench_list_of_a_task(folder: Path) -> None:
    command = ["capture", "--op", "acts:silu", "--", sys.executable, "main.py"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 1, "the program failed"
    assert "acts:silu: 3 calls, 2 different" in done.stdout and "wrote calls.json" in done.stdout
    assert "the program ended with exit code 5: its calls up to then are recorded" in done.stderr
    assert read_calls(folder / "calls.json").operator().count == 3

    shutil.copytree(BUILTIN / "silu_and_mul", folder / "mine")
    update = ["tasks", "update", "mine", "--calls", "calls.json", "--map", "out=result"]
    done = CliRunner().invoke(app, update)
    assert done.exit_code == 0, done.output
    assert "bench from calls.json, 2 timed cases, covering 100.0% of the calls" in done.stdout
    bench = load_task(folder / "mine").bench
    assert [(case.dims, weight) for case, weight in bench] == [
        ({"tokens": 1, "d": 64}, 2),
        ({"tokens": 16, "d": 64}, 1),
    ]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["capture", "--op", "acts:silu", "-o", "no/calls.json", "--", "python"], "no folder no"),
        (
            ["capture", "--op", "acts:silu", "--", "nosuchprogram"],
            "program 'nosuchprogram' not found",
        ),
        (["capture", "--op", "silu", "--", "python"], "write module:function"),
        (["tasks", "update", "silu_and_mul", "--calls", "main.py"], "ships with Astra"),
        (["tasks", "update", "acts.py", "--calls", "none.json"], "cannot read none.json"),
    ],
)
def test_bad_input_is_one_line(folder: Path, command: list[str], said: str) -> None:
    error = CliRunner().invoke(app, command).exception
    assert isinstance(error, BadInput) and said in str(error) and "\n" not in str(error)
