"""`astra-vgpu-nvcc`: nvcc for Make and CMake; what it links runs on the virtual GPU by itself.

It calls the real nvcc with other architectures and another CUDA runtime; all else passes through.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from astra_vgpu.ground.cache import cache_folder
from astra_vgpu.ground.errors import AstraError, MissingDependency
from astra_vgpu.ground.gpu_specs import DEFAULT_GPU, spec
from astra_vgpu.ground.toolkit import find_toolkit
from astra_vgpu.programs.build_program import for_virtual_gpu
from astra_vgpu.programs.embedded import GPU
from astra_vgpu.runtime.cudart_build import ensure_runtime

_UNTOUCHED = frozenset((
    "-h", "--help", "-V", "--version", "-E", "--preprocess", "-M", "--generate-dependencies",
    "-MM", "--generate-nonsystem-dependencies", "-ptx", "--ptx", "-cubin", "--cubin", "-fatbin",
    "--fatbin", "-code-ls", "--list-gpu-code", "-arch-ls", "--list-gpu-arch",
))  # fmt: skip
"""With these nvcc makes nothing that runs."""


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        toolkit = find_toolkit()
        if not _UNTOUCHED.intersection(words):
            chosen = spec(os.environ.get(GPU, DEFAULT_GPU))
            words = [f"-L{link_folder()}", *for_virtual_gpu(words, chosen)]
        return subprocess.run([str(toolkit.nvcc), *words], check=False).returncode
    except AstraError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def link_folder() -> Path:
    """The folder whose libcudart starts a virtual GPU in the program that is linked with it.

    Raises MissingDependency where Python cannot be loaded into a program.
    """
    toolkit = find_toolkit()
    folders = [str(Path(__file__).absolute().parents[2]), str(Path(np.__file__).parents[1])]
    program = (
        f"import sys\nsys.path[:0] = {folders!r}\n"
        f"sys.executable = {sys.executable!r}\n"
        "from astra_vgpu.programs.embedded import start\nstart()\n"
    )
    defines = {
        "VCUDART_LIBPYTHON": str(_libpython()),
        "VCUDART_PYTHONHOME": sys.base_prefix,
        "VCUDART_PROGRAM": program,
    }
    cache = cache_folder("virtual-gpu")
    return ensure_runtime(toolkit.cxx, toolkit.include_dir, cache, defines)


def _libpython() -> Path:
    name = sysconfig.get_config_var("INSTSONAME") or ""
    folders = (sysconfig.get_config_var("LIBDIR") or "", Path(sys.base_prefix, "lib"))
    for folder in folders:
        if ".so" in name and (path := Path(folder, name)).is_file():
            return path
    raise MissingDependency(
        f"Python {sys.version.split()[0]} has no shared library ({name or 'libpython'}): install"
        " it (Debian, Ubuntu: apt-get install libpython3-dev) or use a Python that has one;"
        " `run` works without"
    )


if __name__ == "__main__":
    raise SystemExit(main())
