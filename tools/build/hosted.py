"""A build linked with NVIDIA's runtime, as it is shipped: its launcher runs on a real GPU.

What is judged is linked with the fake runtime (nvcc.py). Only the process that compares the two
(tools/check/winner.py) and measurements of our own kernels load this one.
"""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.build.nvcc import Build, compiler_sandbox
from astra_chat.tools.build.tvm_ffi_binding import compile_cpp
from astra_vgpu.ground.cache import cache_folder, new_entry
from astra_vgpu.ground.toolkit import find_toolkit


def hosted_library(build: Build) -> Path:
    """The shared library, from the cache or linked now, isolated. Raises MissingDependency."""
    toolkit = find_toolkit()
    final = cache_folder("hosted") / build.folder.name
    if not final.is_dir():
        with new_entry(final) as scratch:
            (scratch / "kernel.o").write_bytes(build.object.read_bytes())
            cudart = [f"-L{toolkit.lib_dir}", "-lcudart_static", "-ldl", "-lrt", "-lpthread"]
            command = [str(toolkit.cxx), "-shared", "kernel.o", "-o", "kernel.so", *cudart]
            compile_cpp(
                [*command, "-Wl,--exclude-libs,ALL"], scratch, compiler_sandbox(scratch, ())
            )
    return final / "kernel.so"
