"""nvcc: builds a .cu file to host code, PTX and ptxas' report, linked with the fake CUDA runtime.

All in one call, because names of internal linkage carry a hash that differs between calls.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_vgpu.ground.cache import cache_folder
from astra_vgpu.ground.errors import BadInput, MissingDependency
from astra_vgpu.ground.gpu_specs import GpuSpec
from astra_vgpu.ground.toolkit import find_toolkit
from astra_vgpu.runtime.cudart_build import ensure_runtime
from astra_vgpu.sass.disassembly import SUFFIX, disassemble

COMPILE_TIMEOUT_S = 300.0
_LOG_LINES = 20


class CompileFailed(BadInput):
    """nvcc refused the file; the message holds the start of its log."""


@dataclass(frozen=True)
class Compiled:
    """What nvcc made of one file."""

    library: Path
    ptx: Path
    """The text of the machine code lies beside it, where there is a disassembler."""
    resources: dict[str, tuple[int, int]]
    """Registers and static shared bytes by kernel."""


def compile_file(
    source: Path, folder: Path, spec: GpuSpec, flags: Sequence[str] = ("-std=c++17", "-O3")
) -> Compiled:
    """Builds `source` into `folder` for that GPU, as a library: a `main` in it is kept.

    Raises BadInput for a file that is not there, CompileFailed with nvcc's words, MissingDependency
    without nvcc.
    """
    if not source.is_file():
        raise BadInput(f"no file {source}")
    toolkit = find_toolkit()
    runtime = ensure_runtime(toolkit.cxx, toolkit.include_dir, cache_folder("virtual-gpu"))
    virtual = spec.arch.replace("sm_", "compute_")
    library = folder / f"{source.stem}.so"
    command = [
        str(toolkit.nvcc),
        *flags,
        f"-gencode=arch={virtual},code=[{spec.arch},{virtual}]",
        "-lineinfo",
        "-Xptxas=-v",
        "-shared",
        "-Xcompiler=-fPIC",
        f"-ccbin={toolkit.cxx}",
        f"-I{toolkit.include_dir}",
        "-cudart=none",
        f"-L{runtime}",
        "-keep",
        "-keep-dir",
        str(folder),
        "-o",
        str(library),
        str(source),
        "-lvcudart",
    ]
    log = run_nvcc(command, source.name)
    ptx = folder / f"{source.stem}.ptx"
    disassemble(folder / f"{source.stem}.{spec.arch}.cubin", ptx.with_suffix(SUFFIX))
    return Compiled(library, ptx, read_resources(log))


def run_nvcc(command: Sequence[str], name: str) -> str:
    """What it prints. `name`: what is built, for the message. Raises CompileFailed with the start
    of its log, MissingDependency where it cannot be started."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=COMPILE_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise CompileFailed(f"nvcc did not finish within {COMPILE_TIMEOUT_S:.0f} s") from None
    except OSError as error:
        raise MissingDependency(f"cannot start {command[0]}: {error}") from None
    log = done.stdout + done.stderr
    if done.returncode:
        raise CompileFailed(f"nvcc cannot build {name}:\n{_complaints(log)}")
    return log


def read_resources(log: str) -> dict[str, tuple[int, int]]:
    """Registers and static shared bytes by kernel, from what `ptxas -v` wrote."""
    entries = re.findall(r"entry function '(\S+)'.*?Used (\d+) registers([^\n]*)", log, re.DOTALL)
    shared = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
    return {
        kernel: (int(used), int(match[1]) if (match := shared.search(rest)) else 0)
        for kernel, used, rest in entries
    }


def _complaints(log: str) -> str:
    lines = [line for line in log.splitlines() if not line.startswith("ptxas info")]
    return "\n".join(lines[:_LOG_LINES])
