"""Builds and runs a whole CUDA program with its own main(): `run PROGRAM.cu [-- ARGUMENTS]`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_chat.tools.gpu_specs import spec
from astra_chat.tools.system.cache import cache_folder
from astra_chat.tools.system.toolkit import find_toolkit
from astra_chat.tools.virtual_gpu.runtime.compile import Compiled, compile_file
from astra_chat.tools.virtual_gpu.runtime.cudart_binding import LIBRARY, ensure_runtime
from astra_chat.tools.virtual_gpu.types import Engine

TIMEOUT_S = 600.0
FLAGS = ("-std=c++17", "-O3")
FAILED_UNDER_SANITIZER = 99
"""Exit code of a program that ended well although one of its kernels was stopped."""
NO_PROGRAM, LACKS = 2, 3
"""Of a file without main(), and where the virtual GPU does not support what a program needs,
however it took that."""


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
        if self.refused:
            return self.code if self.code == NO_PROGRAM else LACKS
        return self.code or (FAILED_UNDER_SANITIZER if self.faults else 0)


def run_program(
    source: Path,
    arguments: Sequence[str] = (),
    *,
    gpu: str = "h200",
    engine: Engine = "auto",
    flags: Sequence[str] = (),
    timeout_s: float = TIMEOUT_S,
    memory_bytes: int = 0,
) -> ProgramRun:
    """Builds `source` and runs its main() in a process of its own, on this one's standard streams.

    All blocks of all launches run. Raises BadInput and CompileFailed for a file that cannot be
    built, MissingDependency where the toolkit is missing.
    """
    chosen = spec(gpu)
    with tempfile.TemporaryDirectory(prefix="astra-program-") as name:
        built = compile_file(source, Path(name), chosen, (*FLAGS, *flags))
        return run_built(
            built, source, arguments, gpu=gpu, engine=engine, timeout_s=timeout_s,
            memory_bytes=memory_bytes,
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
            "memory_bytes": memory_bytes,
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


def describe(run: ProgramRun, gpu: str, *, profile: bool) -> str:
    """The report, for people: what was wrong, and with `profile` a line for each kernel."""
    lines = [f"refused: {run.refused}"] if run.refused else []
    lines += [f"sanitizer: {fault}" for fault in run.faults]
    lines += [f"sanitizer: warning: {warning}" for warning in run.warnings]
    if run.ended:
        lines.append(f"the program was {run.ended}")
    if run.leaked:
        lines.append(
            f"sanitizer: {len(run.leaked)} buffers were not freed, {sum(run.leaked)} bytes"
        )
    total = sum(launch["estimated_us"] for launch in run.launches)
    lines.append(
        f"virtual {gpu}: {len(run.launches)} launches, estimated {total:.1f} us,"
        f" {'no fault found' if not run.faults else 'with faults'}; exit code {run.code}"
    )
    return "\n".join([*lines, *(_profile(run) if profile else [])])


def _profile(run: ProgramRun) -> list[str]:
    kernels: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for launch in run.launches:
        kernels[launch["kernel"]].append(launch)
    lines = []
    for kernel, launches in kernels.items():
        longest = max(launches, key=lambda launch: float(launch["estimated_us"]))
        c = longest["counters"]
        us = sum(launch["estimated_us"] for launch in launches)
        lines += [
            f"{kernel}: {len(launches)} launches, estimated {us:.2f} us; the longest, grid"
            f" {longest['grid']} block {longest['block']}: {longest['why']}",
            f"  {sum(c['warp_instructions'].values())} warp instructions,"
            f" {c['global_load_sectors']} sectors loaded, {c['global_store_sectors']} stored,"
            f" {c['shared_wavefronts']} shared wavefronts, {c['divergent_branches']} divergent"
            f" branches, {c['barriers']} barriers" + _local(c),
            *_machine(c),
        ]
    return lines


def _machine(counters: Mapping[str, Any]) -> list[str]:
    """By unit, the busiest first; nothing where the machine code is not known."""
    units = sorted(counters["machine_instructions"].items(), key=lambda item: -item[1])
    if not units:
        return []
    words = ", ".join(f"{count} {unit}" for unit, count in units)
    return [f"  {sum(count for _, count in units)} machine instructions: {words}"]


def _local(counters: Mapping[str, int]) -> str:
    loads, stores = counters["local_load_sectors"], counters["local_store_sectors"]
    return f", local memory: {loads} sectors loaded, {stores} stored" if loads or stores else ""
