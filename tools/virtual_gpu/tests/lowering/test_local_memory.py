"""Arrays of single threads: what ptxas leaves in memory, by its own word."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from astra_vgpu.ground.toolkit import Toolkit
from astra_vgpu.numpy_engine.program import prepare
from astra_vgpu.ptx.parser import parse

SOURCE = Path(__file__).parents[1] / "numpy_engine" / "data" / "local.cu"


@pytest.mark.second_tier
def test_ptxas_has_a_stack_frame_where_we_count_memory(toolkit: Toolkit, tmp_path: Path) -> None:
    ptx = tmp_path / "local.ptx"
    for command in (
        [toolkit.nvcc, "-arch=sm_90", "-ptx", "-O3", "-o", ptx, SOURCE],
        [toolkit.nvcc.parent / "ptxas", "-v", "-arch=sm_90", ptx, "-o", tmp_path / "local.cubin"],
    ):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
    frames = dict(re.findall(r"Function properties for (\w+)\n\s+(\d+) bytes stack", done.stderr))
    module = parse(ptx.read_text())
    assert len(module.kernels) >= 19
    found, expected = {}, {}
    for name, kernel in module.kernels.items():
        prepared = prepare(module, kernel, cooperative=False)
        local = [i for b in prepared.blocks for i in b.body if "local" in i.modifiers]
        found[name] = any(id(i) not in prepared.in_registers for i in local)
        expected[name] = int(frames[name]) > 0
    assert found == expected
    assert 6 < sum(expected.values()) < len(expected) - 6
