"""Builds and runs a whole CUDA program with its own main(): `run PROGRAM.cu [-- ARGUMENTS]`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_chat.tools.gpu_specs import spec
from astra_chat.tools.system.cache import cache_folder
from astra_chat.tools.system.toolkit import find_toolkit
from astra_chat.tools.virtual_gpu.programs.findings import Finding, findings_of
from astra_chat.tools.virtual_gpu.runtime.compile import Compiled, compile_file
from astra_chat.tools.virtual_gpu.runtime.cudart_binding import LIBRARY, ensure_runtime
from astra_chat.tools.virtual_gpu.types import Engine

TIMEOUT_S = 600.0
FLAGS = ("-std=c++17", "-O3")
FOUND, NO_PROGRAM, LACKS = 1, 2, 3
"""Exit codes: a kernel was stopped; a file without main(); the virtual GPU does not support what a
program needs, however it took that."""


@dataclass(frozen=True)
class ProgramRun:
    """What became of a program."""

    code: int
    """Its own exit code; 128 + n where signal n killed it."""
    launches: tuple[dict[str, Any], ...]
    """Of each: kernel, grid, block, estimated_us, limiter, why, counters."""
    faults: tuple[str, ...]
    refused: str
    """What the virtual GPU does not support, or ""."""
    warnings: tuple[str, ...]
    """Uninitialized reads, once a source line."""
    leaked: tuple[int, ...]
    """Bytes of each buffer that was not freed."""
    ended: str
    """"" or how it ended if not by itself."""

    @property
    def exit_code(self) -> int:
        """0 only for a program that ended well and whose kernels did nothing wrong."""
        return FOUND if self.faults else self.exit_code_without_findings

    @property
    def exit_code_without_findings(self) -> int:
        if self.refused:
            return self.code if self.code == NO_PROGRAM else LACKS
        return self.code

    @property
    def findings(self) -> tuple[Finding, ...]:
        return findings_of(self.faults, self.warnings, self.leaked)


def run_program(
    source: Path,
    arguments: Sequence[str] = (),
    *,
    gpu: str = "h200",
    engine: Engine = "auto",
    flags: Sequence[str] = (),
    timeout_s: float = TIMEOUT_S,
    memory_bytes: int = 0,
    keep_going: bool = False,
) -> ProgramRun:
    """Builds `source` and runs its main() in a process of its own, on this one's standard streams.

    All blocks of all launches run. keep_going: a stopped kernel is no error for the program
    whose later launches run too. Raises BadInput and CompileFailed for a file that cannot be
    built, MissingDependency where the toolkit is missing.
    """
    chosen = spec(gpu)
    with tempfile.TemporaryDirectory(prefix="astra-program-") as name:
        built = compile_file(source, Path(name), chosen, (*FLAGS, *flags))
        return run_built(
            built, source, arguments, gpu=gpu, engine=engine, timeout_s=timeout_s,
            memory_bytes=memory_bytes, keep_going=keep_going,
        )  # fmt: skip


def run_built(
    built: Compiled,
    source: Path,
    arguments: Sequence[str] = (),
    *,
    gpu: str = "h200",
    engine: Engine = "auto",
    timeout_s: float = TIMEOUT_S,
    memory_bytes: int = 0,
    keep_going: bool = False,
) -> ProgramRun:
    """The same for a program that compile_file built for that GPU with FLAGS, or more."""
    toolkit = find_toolkit()
    runtime = ensure_runtime(toolkit.cxx, toolkit.include_dir, cache_folder("virtual-gpu"))
    with tempfile.TemporaryDirectory(prefix="astra-program-") as name:
        folder = Path(name)
        request = {
            "library": str(built.library), "ptx": str(built.ptx), "resources": built.resources,
            "runtime": str(runtime / LIBRARY), "report": str(folder / "report.jsonl"),
            "gpu": spec(gpu).key, "engine": engine, "arguments": [str(source), *arguments],
            "memory_bytes": memory_bytes, "keep_going": keep_going,
        }  # fmt: skip
        (folder / "request.json").write_text(json.dumps(request))
        command = [
            sys.executable, "-m", "astra_chat.tools.virtual_gpu.programs.worker",
            str(folder / "request.json"),
        ]  # fmt: skip
        sys.stdout.flush()
        try:
            code = subprocess.run(command, timeout=timeout_s, check=False).returncode
        except subprocess.TimeoutExpired:
            return _read(folder / "report.jsonl", 124, f"stopped after {timeout_s:.0f} s")
        ended = ""
        if code < 0:
            code, ended = 128 - code, f"killed by {signal.Signals(-code).name}"
        return _read(folder / "report.jsonl", code, ended)


def _read(report: Path, code: int, ended: str) -> ProgramRun:
    lines = report.read_text().splitlines() if report.is_file() else []
    rows = [json.loads(line) for line in lines]
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_kind[row.pop("what")].append(row)
    last = by_kind["exit"][-1] if by_kind["exit"] else {}
    refused = by_kind["refused"][0]["message"] if by_kind["refused"] else ""
    return ProgramRun(
        code, tuple(by_kind["launch"]), tuple(row["message"] for row in by_kind["fault"]), refused,
        tuple(row["message"] for row in by_kind["warning"]), tuple(last.get("leaked", ())), ended,
    )  # fmt: skip
