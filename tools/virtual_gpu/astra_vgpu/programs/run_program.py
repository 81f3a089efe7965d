"""Builds and runs a whole CUDA program with its own main(): `run PROGRAM.cu [-- ARGUMENTS]`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from astra_vgpu.ground.cache import cache_folder
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.ground.toolkit import find_toolkit
from astra_vgpu.programs.build_program import build_program
from astra_vgpu.programs.findings import Finding, findings_of
from astra_vgpu.runtime.cudart_build import LIBRARY, ensure_runtime
from astra_vgpu.types import Engine

TIMEOUT_S = 600.0
FOUND, NO_PROGRAM, LACKS = 1, 2, 3
"""Exit codes: a kernel was stopped; a file without main(); the virtual GPU does not support what a
program needs, however it took that."""


@dataclass(frozen=True, kw_only=True)
class ProgramRun:
    """What became of a program."""

    code: int
    """The program's own exit code; 128 + n where signal n killed it."""
    launches: tuple[Mapping[str, Any], ...]
    """Each launch's kernel, grid, block, estimated_us, limiter, why and counters."""
    faults: tuple[str, ...]
    refused: str
    """What the virtual GPU does not support, or ""."""
    warnings: tuple[str, ...]
    """Uninitialized reads, once a source line."""
    leaked: tuple[int, ...]
    """Bytes of each buffer that was not freed."""
    ended: str
    """"" or how it ended if not by itself."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Paths of the source files of findings, by message."""
    stopped: Mapping[str, int] = field(default_factory=dict)
    """How many launches of each kernel a fault stopped; `launches` has only those that ended."""
    answered: Mapping[str, int] = field(default_factory=dict)
    """How often each call of NVIDIA's libraries was answered on the host."""

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
        return findings_of(self.faults, self.warnings, self.leaked, self.paths)


def run_program(
    sources: Path | Sequence[Path],
    arguments: Sequence[str] = (),
    *,
    gpu: str = "h200",
    engine: Engine = "auto",
    flags: Sequence[str] = (),
    timeout_s: float = TIMEOUT_S,
    memory_bytes: int = 0,
    keep_going: bool = False,
) -> ProgramRun:
    """Builds the sources (.cu, .cpp, .c) and runs their main() in a process of its own, on this
    one's standard streams.

    All blocks of all launches run. keep_going: a stopped kernel is no error for the program, whose
    later launches run too. Raises BadInput and CompileFailed for a file that cannot be built,
    MissingDependency where the toolkit is missing.
    """
    files = [sources] if isinstance(sources, Path) else list(sources)
    chosen = spec(gpu)
    with tempfile.TemporaryDirectory(prefix="astra-program-") as name:
        library = build_program(files, Path(name), chosen, flags)
        return run_built(
            library,
            files[0],
            arguments,
            gpu=gpu,
            engine=engine,
            timeout_s=timeout_s,
            memory_bytes=memory_bytes,
            keep_going=keep_going,
        )


def run_built(
    library: Path,
    name: Path,
    arguments: Sequence[str] = (),
    *,
    gpu: str = "h200",
    engine: Engine = "auto",
    timeout_s: float = TIMEOUT_S,
    memory_bytes: int = 0,
    keep_going: bool = False,
) -> ProgramRun:
    """Runs a library that build_program built for that GPU, as run_program does; `name` is what
    main() gets first."""
    toolkit = find_toolkit()
    runtime = ensure_runtime(toolkit.cxx, toolkit.include_dir, cache_folder("virtual-gpu"))
    with tempfile.TemporaryDirectory(prefix="astra-program-") as temporary:
        folder = Path(temporary)
        request = {
            "library": str(library),
            "runtime": str(runtime / LIBRARY),
            "report": str(folder / "report.jsonl"),
            "gpu": spec(gpu).key,
            "engine": engine,
            "arguments": [str(name), *arguments],
            "memory_bytes": memory_bytes,
            "keep_going": keep_going,
        }
        (folder / "request.json").write_text(json.dumps(request))
        command = [
            sys.executable,
            "-m",
            "astra_vgpu.programs.worker",
            str(folder / "request.json"),
        ]
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
    return run_of(map(json.loads, lines), code, ended)


def run_of(rows: Iterable[Mapping[str, Any]], code: int, ended: str = "") -> ProgramRun:
    """What became of a program, from the rows of its Recording."""
    by_kind: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_kind[row["what"]].append(row)
    last = by_kind["exit"][-1] if by_kind["exit"] else {}
    refused = by_kind["refused"][0]["message"] if by_kind["refused"] else ""
    return ProgramRun(
        code=code,
        launches=tuple(by_kind["launch"]),
        faults=tuple(row["message"] for row in by_kind["fault"]),
        refused=refused,
        warnings=tuple(row["message"] for row in by_kind["warning"]),
        leaked=tuple(last.get("leaked", ())),
        ended=ended,
        paths={row["message"]: row["path"] for row in (*by_kind["fault"], *by_kind["warning"])},
        stopped=Counter(row["kernel"] for row in by_kind["cut short"]),
        answered=Counter(row["call"] for row in by_kind["answered"]),
    )
