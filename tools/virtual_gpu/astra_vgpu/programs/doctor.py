"""`doctor`: what the virtual GPU needs, and whether this machine has it."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from astra_vgpu.ground.cache import cache_folder
from astra_vgpu.ground.errors import AstraError, MissingDependency
from astra_vgpu.ground.toolkit import find_tool, find_toolkit
from astra_vgpu.programs.nvcc_command import link_folder
from astra_vgpu.runtime.cudart_build import ensure_runtime


def doctor() -> int:
    """Prints a line for each; exit code 3 where something that `run` needs is missing."""
    lacking = [name for name, look in _NEEDED if not _told(name, look)]
    for name, look in _OPTIONAL:
        _told(name, look, optional=True)
    return MissingDependency.exit_code if lacking else 0


def _told(name: str, look: Callable[[], str], *, optional: bool = False) -> bool:
    try:
        text = f"ok       {name}: {look()}"
    except AstraError as error:
        print(f"{'optional' if optional else 'missing '} {name}: {error}")
        return False
    print(text)
    return True


def _toolkit() -> str:
    toolkit = find_toolkit()
    return f"{toolkit.version} at {toolkit.nvcc}, host compiler {toolkit.cxx}"


def _runtime() -> str:
    toolkit = find_toolkit()
    return str(ensure_runtime(toolkit.cxx, toolkit.include_dir, cache_folder("virtual-gpu")))


_NEEDED: tuple[tuple[str, Callable[[], str]], ...] = (
    ("Python", lambda: f"{sys.version.split()[0]} with NumPy {np.__version__}"),
    ("nvcc", _toolkit),
    ("CUDA runtime of the virtual GPU", _runtime),
)
_OPTIONAL: tuple[tuple[str, Callable[[], str]], ...] = (
    ("nvdisasm (counters from machine code)", lambda: str(find_tool("nvdisasm"))),
    ("libpython (astra-vgpu-nvcc)", lambda: str(link_folder())),
)
