"""The roles' standing instructions are there, and the coder's example is real."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import get_args

import pytest

from astra_chat.agents.roles import example, instructions
from astra_chat.agents.turns import MODEL_ROLES, RoleName
from astra_chat.tools.profiling.metrics import BOTTLENECKS
from astra_chat.tools.system.toolkit import find_toolkit
from astra_chat.tools.types import ValueFamily


@pytest.mark.parametrize("role", MODEL_ROLES)
def test_every_role_has_instructions(role: RoleName) -> None:
    text = instructions(role)
    assert f"# {role.capitalize()}" in text
    assert "JSON" in text, "the shared part comes first"


def test_the_profiler_and_the_tester_are_told_all_words_that_they_may_use() -> None:
    for word in BOTTLENECKS:
        assert word in instructions("profiler").replace(",", " ").replace(".", " ").split()
    for family in get_args(ValueFamily):
        assert f"`{family}`" in instructions("tester")


def test_the_example_compiles(tmp_path: Path) -> None:
    toolkit = find_toolkit()
    (tmp_path / "example.cu").write_text(example())
    done = subprocess.run(
        [
            str(toolkit.nvcc),
            "-ptx",
            "-arch=sm_90",
            f"-ccbin={toolkit.cxx}",
            f"-I{toolkit.include_dir}",
            "example.cu",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ptx = (tmp_path / "example.ptx").read_text()
    assert ptx.count(".entry") == 3, "one kernel a dtype"
    assert "ld.global.nc.v4" in ptx or "ld.global.v4" in ptx, "it shows 16-byte loads"
