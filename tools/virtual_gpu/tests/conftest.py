"""Kernel files built once for the tests of the virtual GPU."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from astra_vgpu.ground.toolkit import Toolkit, find_toolkit
from astra_vgpu.runtime.cudart_build import ensure_runtime


@dataclass(frozen=True)
class KernelFile:
    """What one nvcc call makes of a kernel file for the virtual GPU."""

    library: Path
    ptx: Path
    resources: dict[str, tuple[int, int]]
    """Registers and static shared bytes by mangled name."""


def compile_for_virtual(source: Path, folder: Path, runtime: Path, toolkit: Toolkit) -> KernelFile:
    library = folder / f"{source.stem}.so"
    command = [
        str(toolkit.nvcc),
        "-gencode",
        "arch=compute_90,code=[sm_90,compute_90]",
        "-std=c++17",
        "-O3",
        "-lineinfo",
        "-Xptxas",
        "-v",
        "-cudart",
        "none",
        "-shared",
        "-Xcompiler",
        "-fPIC",
        "-keep",
        "-keep-dir",
        str(folder),
        "-o",
        str(library),
        str(source),
        f"-L{runtime}",
        "-lvcudart",
        "-Xlinker",
        "-zdefs",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    resources = {
        kernel: (int(registers), int(shared or 0))
        for kernel, registers, shared in re.findall(
            r"entry function '(\S+)'.*?Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?",
            done.stderr + done.stdout,
            re.DOTALL,
        )
    }
    return KernelFile(library, folder / f"{source.stem}.ptx", resources)


@pytest.fixture(scope="session")
def toolkit() -> Toolkit:
    return find_toolkit()


@pytest.fixture(scope="session")
def runtime_folder(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    return ensure_runtime(toolkit.cxx, toolkit.include_dir, cache)


@pytest.fixture(scope="session")
def calls(
    toolkit: Toolkit, runtime_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KernelFile]:
    """data/calls.cu: host code that makes CUDA calls of many kinds."""
    source = Path(__file__).parent / "data" / "calls.cu"
    yield compile_for_virtual(source, tmp_path_factory.mktemp("calls"), runtime_folder, toolkit)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
