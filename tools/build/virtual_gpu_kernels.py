"""Compiles the virtual GPU's C engine in the sandbox: its C text comes from untrusted PTX.

PTX can be made expensive to compile. Translation and compilation are limited in time and memory;
what exceeds the limits runs on the NumPy engine, or not at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.forked import server_of
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout, Stop, Worker, run_limited
from astra_chat.tools.virtual_gpu.adapter import Engine
from astra_vgpu.ground.cache import cache_folder
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import find_compiler

TRANSLATE_TIMEOUT_S, TRANSLATE_MEMORY_BYTES = 60.0, 4 * 2**30
COMPILE_TIMEOUT_S, COMPILE_MEMORY_BYTES = 120.0, 4 * 2**30
FILE_BYTES = 2**28
MODULE = "astra_chat.tools.runners.translate"


def compile_walled(
    ptx: Path, engine: Engine, stop: Stop, only: Collection[str] | None = None
) -> dict[str, Path]:
    """Libraries by kernel; empty where the PTX cannot be translated within the limits.

    only: these kernels; a compiler takes many seconds for a file of many instantiations. Raises
    Cancelled; with engine `c` also MissingDependency for what does not compile.
    """
    from astra_chat.tools.virtual_gpu.adapter import compile_sources

    sources = _sources(ptx, engine, stop, only)
    return compile_sources(sources, engine, partial(_start_walled, stop)) if sources else {}


def _sources(ptx: Path, engine: Engine, stop: Stop, only: Collection[str] | None) -> dict[str, str]:
    """C text by kernel, translated in a child process."""
    with tempfile.TemporaryDirectory(prefix="astra-translate-") as scratch:
        sandbox = SandboxPolicy(
            read=(ptx,),
            write=(Path(scratch),),
            memory_bytes=TRANSLATE_MEMORY_BYTES,
            file_bytes=FILE_BYTES,
        )
        wanted = None if only is None else sorted(only)
        request = {"ptx": str(ptx), "engine": engine, "folder": scratch, "only": wanted}
        sources: dict[str, str] = {}
        try:
            with Worker(MODULE, sandbox=sandbox, server=server_of(MODULE)) as worker:
                worker.ask(request, TRANSLATE_TIMEOUT_S, stop)
                for report in worker.reports():
                    path = Path(scratch) / f"{int(report['index'])}.c"
                    sources[str(report["kernel"])] = path.read_text()
                whole = worker.finish().returncode == 0
        except (StepTimeout, StepMemory):
            whole = False
    if not whole and engine == "c":
        raise MissingDependency(
            f"{ptx} cannot be translated for the C engine within {TRANSLATE_TIMEOUT_S:.0f} s and"
            f" {TRANSLATE_MEMORY_BYTES / 2**30:.0f} GiB: use --engine numpy"
        )
    return sources if whole else {}


def _start_walled(stop: Stop, command: Sequence[str], folder: Path) -> tuple[int, str]:
    """The host compiler in the sandbox. Raises MissingDependency past its limits, and Cancelled."""
    compiler = find_compiler()
    from astra_chat.tools.virtual_gpu.adapter import source_folder

    sandbox = SandboxPolicy(
        read=(compiler, compiler.resolve(), source_folder(), cache_folder("virtual-gpu")),
        write=(folder,),
        memory_bytes=COMPILE_MEMORY_BYTES,
        file_bytes=FILE_BYTES,
    )
    try:
        done = run_limited(
            command, timeout_s=COMPILE_TIMEOUT_S, cwd=folder, stop=stop, sandbox=sandbox
        )
    except (StepTimeout, StepMemory):
        raise MissingDependency(
            f"{compiler} did not finish within {COMPILE_TIMEOUT_S:.0f} s and"
            f" {COMPILE_MEMORY_BYTES / 2**30:.0f} GiB: use --engine numpy"
        ) from None
    return done.returncode, done.output
