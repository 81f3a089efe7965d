"""nvdisasm's text of a build's machine code, made when it is first asked for: of a file with many
templates it takes minutes, and only an audit and an estimate read it."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

from astra_chat.tools.build.nvcc import Build, compiler_sandbox
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout, Stop, run_limited
from astra_chat.tools.virtual_gpu.adapter import OPTIONS
from astra_vgpu.ground.toolkit import find_tool

FILE = "kernel.sass"
TIMEOUT_S = 1200.0
_FAILED = set[Path]()
"""Builds on which it failed in this process: each estimate asks, and a limit is long."""


def machine_code_of(build: Build, stop: Stop | None = None) -> Path | None:
    """The file with the text, in the build's folder; None where nvdisasm fails on the cubin. Raises
    Cancelled."""
    kept = build.folder / FILE
    if kept.is_file():
        return kept
    if build.folder in _FAILED:
        return None
    if _written(build, kept, stop or Stop()):
        return kept
    _FAILED.add(build.folder)
    return None


def _written(build: Build, kept: Path, stop: Stop) -> bool:
    """Whether nvdisasm wrote the text."""
    command = [str(find_tool("nvdisasm")), *OPTIONS, build.cubin.name]
    with tempfile.TemporaryDirectory(prefix=".disassembly-", dir=build.folder.parent) as scratch:
        place = Path(scratch)
        (place / build.cubin.name).write_bytes(build.cubin.read_bytes())
        try:
            done = run_limited(
                ["/bin/sh", "-c", f"{shlex.join(command)} >{FILE} 2>/dev/null"],
                timeout_s=TIMEOUT_S,
                sandbox=compiler_sandbox(place, ()),
                cwd=place,
                stop=stop,
            )
        except (StepTimeout, StepMemory):
            return False
        if done.returncode != 0:
            return False
        (place / FILE).rename(kept)
    return True
