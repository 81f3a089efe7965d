"""Times of a set on a real GPU: builds measure.cu and the kernels, runs them, writes the JSON."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from astra_vgpu.ground.errors import BadInput, MissingDependency
from astra_vgpu.ground.toolkit import find_toolkit
from lab.virtual_gpu.validation.counted import on_file, read_rows
from lab.virtual_gpu.validation.points import HERE, Point
from lab.virtual_gpu.validation.references import wrong

TIMES = "h200.jsonl"
FLAGS = ("-std=c++17", "-O3")
BUILD_TIMEOUT_S = 200.0
MEASURE_TIMEOUT_S = 500.0
GPU = "GPU: "
"""What measure.cu says first, before the GPU's name."""


@dataclass(frozen=True)
class Measured:
    """Measured times of one point, us a launch: median of graph replays."""

    cold_us: float
    """Time with nothing of the launch's buffers in L2."""
    warm_us: float
    """Time with the same buffers in every launch."""


Times = dict[tuple[str, int, int], Measured]
"""Measured times by Point.key."""


def measure(points: Sequence[Point], out: Path, arch: str = "native") -> tuple[str, list[str]]:
    """Measures all points here and writes them to `out`, a JSON object a line; returns the GPU's
    name and what went wrong: kernels that failed and, at the first shape of each variant, that
    computed something else than their reference. Of such variants no time is kept.

    arch: as nvcc's -arch has it. Raises MissingDependency without a GPU or nvcc, BadInput for
    kernels that do not build.
    """
    with tempfile.TemporaryDirectory(prefix="astra-measure-") as name:
        folder = Path(name)
        tool, libraries = _build(sorted({p.source for p in points}), folder, arch)
        outputs = {p: folder / f"{p.variant}.out" for p in _first_of_each(points)}
        lines = {
            p: f"{libraries[p.source]} {p.variant} {p.a} {p.b} {p.in_bytes} {p.out_bytes} {p.ids}"
            f" {p.below} {outputs.get(p, '-')}"
            for p in points
        }
        gpu, failed = run_all(tool, lines, out)
        answers = {p: np.fromfile(f, np.uint8) for p, f in outputs.items() if f.is_file()}
    with ThreadPoolExecutor() as pool:
        mistakes = list(pool.map(wrong, answers, answers.values()))
    bad = {p.variant for p in failed}
    bad |= {p.variant for p, text in zip(answers, mistakes, strict=True) if text}
    rows = [row for row in out.read_text().splitlines() if json.loads(row)["launcher"] not in bad]
    out.write_text("".join(f"{row}\n" for row in rows))
    return gpu, [*failed.values(), *filter(None, mistakes)]


def times_of(folder: Path) -> Path:
    """Where a set's times are, as `measure` writes them."""
    return on_file(folder, TIMES)


def read_times(path: Path) -> Times:
    """Times that `measure` kept."""
    rows = read_rows(path)
    return {
        (row["launcher"], row["a"], row["b"]): Measured(row["cold_us"], row["warm_us"])
        for row in rows
    }


def _first_of_each(points: Iterable[Point]) -> Iterator[Point]:
    seen = set()
    for point in points:
        if point.variant not in seen:
            seen.add(point.variant)
            yield point


def _build(sources: Sequence[Path], folder: Path, arch: str) -> tuple[Path, dict[Path, Path]]:
    """The measuring program and, by source, the libraries: as many at once as there are cores."""
    nvcc = [str(find_toolkit().nvcc), f"-arch={arch}", *FLAGS]
    tool = folder / "measure"
    libraries = {source: folder / f"{source.stem}.so" for source in sources}
    commands = [[*nvcc, "-o", str(tool), str(HERE / "measure.cu"), "-ldl"]]
    for source, library in libraries.items():
        shared = ["-shared", "-Xcompiler", "-fPIC", "-o", str(library)]
        commands.append([*nvcc, *shared, str(source)])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = list(pool.map(_compile, commands))
    for command, done in zip(commands, built, strict=True):
        if done.returncode:
            raise BadInput(f"nvcc cannot build {command[-1]}: {done.stderr.strip()[:400]}")
        if command is commands[0]:
            _ask(tool, [], None)  # without a GPU nvcc builds for an old one, and may then fail
    return tool, libraries


def _compile(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=BUILD_TIMEOUT_S
    )


def _ask(tool: Path, lines: Sequence[str], kept: IO[str] | None) -> tuple[str, int, str]:
    """Runs the measuring program: the GPU's name, its exit status and its error output."""
    try:
        done = subprocess.run(
            [str(tool)],
            input="\n".join(lines),
            stdout=kept,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=MEASURE_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise MissingDependency(f"measure did not end within {MEASURE_TIMEOUT_S:.0f} s") from None
    name, _, errors = done.stderr.strip().partition("\n")
    if not name.startswith(GPU):
        raise MissingDependency(f"measure failed: {name[:400]}")
    return name.removeprefix(GPU), done.returncode, errors[:400]


def run_all(tool: Path, lines: dict[Point, str], out: Path) -> tuple[str, dict[Point, str]]:
    """Every point's time into `out`, as it comes; a process dies with a kernel that fails, so
    another continues behind it. Returns the GPU's name and what was said of points that failed."""
    failed: dict[Point, str] = {}
    asked = list(lines)
    with out.open("w") as kept:
        while True:
            before = len(out.read_text().splitlines())
            gpu, status, errors = _ask(tool, [lines[p] for p in asked], kept)
            if not status:
                return gpu, failed
            ended = len(out.read_text().splitlines()) - before
            failed[asked[ended]] = f"{asked[ended].variant}: {errors or f'status {status}'}"
            asked = asked[ended + 1 :]
