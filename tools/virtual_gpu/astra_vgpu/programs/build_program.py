"""nvcc for whole programs: sources to a library with main(), linked with the fake CUDA runtime."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from astra_vgpu.ground.cache import cache_folder
from astra_vgpu.ground.errors import BadInput, MissingDependency
from astra_vgpu.ground.gpu_specs import GpuSpec
from astra_vgpu.ground.toolkit import find_toolkit
from astra_vgpu.runtime.compile import run_nvcc
from astra_vgpu.runtime.cudart_build import ensure_runtime

STANDARD, OPTIMIZATION = "-std=c++17", "-O3"
_OLDEST_ARCH = 75
"""CUDA 13 builds for nothing older."""
_ARCH_OPTIONS = (
    "-arch",
    "--gpu-architecture",
    "-gencode",
    "--generate-code",
    "-code",
    "--gpu-code",
)
_RELOCATABLE = ("-rdc=true", "--relocatable-device-code=true", "-dc", "--device-c", "-dlink")


def build_program(
    sources: Sequence[Path], folder: Path, spec: GpuSpec, flags: Sequence[str] = ()
) -> Path:
    """The library with the main() of .cu, .cpp and .c files, in `folder`.

    Raises BadInput for a file that is not there, CompileFailed with nvcc's words, MissingDependency
    without nvcc.
    """
    if missing := [str(source) for source in sources if not source.is_file()]:
        raise BadInput(f"no file {', '.join(missing)}")
    toolkit = find_toolkit()
    runtime = ensure_runtime(toolkit.cxx, toolkit.include_dir, cache_folder("virtual-gpu"))
    library = folder / f"{sources[0].stem}.so"
    defaults = [
        word
        for word, prefixes in ((STANDARD, ("-std", "--std")), (OPTIMIZATION, ("-O",)))
        if not any(flag.startswith(prefixes) for flag in flags)
    ]
    command = [
        str(toolkit.nvcc),
        f"-L{runtime}",
        *defaults,
        *for_virtual_gpu(flags, spec),
        f"-ccbin={toolkit.cxx}",
        "-shared",
        "-Xcompiler=-fPIC",
        f"-I{toolkit.include_dir}",
        "-cudart=none",
        "-o",
        str(library),
        *map(str, sources),
        "-lvcudart",
    ]
    run_nvcc(command, ", ".join(source.name for source in sources))
    return library


def for_virtual_gpu(words: Sequence[str], spec: GpuSpec) -> list[str]:
    """nvcc's options with PTX that this GPU runs, source lines, and both readable in the program.

    The newest of the architectures that are asked for and that the GPU has; else the GPU's own.
    Raises MissingDependency for relocatable device code.
    """
    kept: list[str] = []
    asked: list[str] = []
    rest = iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        if word in _RELOCATABLE or name in _RELOCATABLE or word == "-rdc":
            raise MissingDependency(
                f"relocatable device code ({word}) is not supported on the virtual GPU"
            )
        if name in _ARCH_OPTIONS:
            asked.append(value or next(rest, ""))
        else:
            kept.append(word)
    arch = _architecture(asked, spec)
    code = f"-gencode=arch=compute_{arch},code=[sm_{arch},compute_{arch}]"
    return [*kept, code, "-lineinfo", "-Xfatbin=-compress=false"]


def _architecture(asked: Sequence[str], spec: GpuSpec) -> str:
    """ "90", or "90a" where that was asked for."""
    newest = 10 * spec.compute[0] + spec.compute[1]
    found = re.findall(r"(?:sm|compute)_(\d+)([af]?)", " ".join(asked))
    fitting = [(int(n), suffix) for n, suffix in found if _OLDEST_ARCH <= int(n) <= newest]
    number, suffix = max(fitting, default=(newest, ""))
    return f"{number}{suffix}"
