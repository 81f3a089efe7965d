"""data/known.cu, built once, and its launches on either engine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from astra_vgpu.gpu import VirtualGpu
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.runtime.calls import device_array
from astra_vgpu.runtime.compile import Compiled, compile_file
from astra_vgpu.types import Engine, LaunchReport

Run = Callable[..., LaunchReport]


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    source = Path(__file__).parent / "data" / "known.cu"
    return compile_file(source, tmp_path_factory.mktemp("known"), spec("h200"))


@pytest.fixture
def run(known: Compiled) -> Run:
    """Launches a kernel of the file with 2 blocks of 64 threads, if not told otherwise."""

    def run_one(
        kernel: str,
        n: int,
        *,
        engine: Engine = "numpy",
        blocks: int = 2,
        threads: int = 64,
        sample: int | None = None,
        built: Compiled = known,
    ) -> LaunchReport:
        gpu = VirtualGpu(spec("h200"), engine=engine, sample_instructions=sample)
        library = gpu.load(built.library, built.ptx, built.resources)
        arrays = device_array(4 * 65536), device_array(4 * 8192)
        arrays[1].view(np.int32)[:] = 1
        addresses = [gpu.register(a, n) for a, n in zip(arrays, ("out", "in"), strict=True)]
        launcher = getattr(library, f"run_{kernel}")
        assert launcher(*(ctypes.c_void_p(a) for a in addresses), n, blocks, threads) == 0
        (report,) = gpu.reports()
        return report

    return run_one
