"""Module variables on a real GPU: changes are seen, also those that were restored since."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from astra_vgpu.ground.toolkit import find_toolkit

SOURCE = """
__device__ unsigned long long calls = 7;
__constant__ float factor = 2.0f;
__device__ float unused[1000];
extern "C" __global__ void touch(float* out) { out[0] = calls * factor + unused[threadIdx.x]; }
"""


@pytest.mark.gpu
def test_a_change_is_seen_though_it_was_restored(tmp_path: Path) -> None:
    import torch

    from astra_chat.tools.runners.cuda_plans import Kernels
    from astra_chat.tools.runners.cuda_state import ModuleVariables

    source, cubin = tmp_path / "state.cu", tmp_path / "state.cubin"
    source.write_text(SOURCE)
    command = [str(find_toolkit().nvcc), "-cubin", "-arch=sm_90", "-o", str(cubin), str(source)]
    subprocess.run(command, check=True)
    torch.zeros(1, device="cuda")
    places = Kernels(cubin).variables
    assert {"calls", "factor", "unused"} <= places.keys()
    state = ModuleVariables(places)
    assert state.changed() == []
    for name in ("unused", "factor"):
        view = ModuleVariables({name: places[name]})._there[0]
        before = view.clone()
        view[-1] += 1
        state.restore()
        assert torch.equal(view, before)
        assert name in state.changed()
    assert sorted(state.changed()) == ["factor", "unused"]
    assert ModuleVariables(places).changed() == []
