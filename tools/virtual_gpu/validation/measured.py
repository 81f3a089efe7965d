"""Times of a set on a real GPU: builds measure.cu and the kernels, runs them, keeps the JSON."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_chat.tools.errors import EnvironmentLack
from astra_chat.tools.toolkit import find_toolkit
from astra_chat.tools.virtual_gpu.validation.points import HERE, Point

FLAGS = ("-std=c++17", "-O3")
MEASURE_TIMEOUT_S = 500.0


@dataclass(frozen=True)
class Measured:
    """Of one point, us a launch: median of graph replays."""

    cold_us: float
    """L2 holds nothing of the launch's buffers."""
    warm_us: float
    """The same buffers each time."""


Times = dict[tuple[str, int, int], Measured]
"""By Point.key."""


def measure(points: Sequence[Point], out: Path) -> str:
    """Measures all points here and writes them to `out`, a JSON object a line; returns the GPU's
    name. Raises EnvironmentLack without a GPU or nvcc."""
    nvcc = str(find_toolkit().nvcc)
    with tempfile.TemporaryDirectory(prefix="astra-measure-") as name:
        folder = Path(name)
        tool = folder / "measure"
        _run([nvcc, "-arch=native", *FLAGS, "-o", str(tool), str(HERE / "measure.cu"), "-ldl"])
        libraries = {source: folder / f"{source.stem}.so" for source in {p.source for p in points}}
        for source, library in libraries.items():
            shared = ["-shared", "-Xcompiler", "-fPIC", "-o", str(library)]
            _run([nvcc, "-arch=native", *FLAGS, *shared, str(source)])
        asked = "\n".join(
            f"{libraries[p.source]} {p.variant} {p.a} {p.b} {p.in_bytes} {p.out_bytes}"
            for p in points
        )
        done = _run([str(tool)], asked)
        out.write_text(done.stdout)
    return done.stderr.strip()


def read_times(path: Path) -> Times:
    """Times that `measure` kept."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {
        (row["launcher"], row["a"], row["b"]): Measured(row["cold_us"], row["warm_us"])
        for row in rows
    }


def _run(command: list[str], given: str = "") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, check=False, timeout=MEASURE_TIMEOUT_S
    )
    if done.returncode:
        raise EnvironmentLack(f"{Path(command[0]).name} failed: {done.stderr.strip()[:400]}")
    return done
