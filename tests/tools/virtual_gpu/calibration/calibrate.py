"""Fits the constants of estimate.py to times measured on an H200, and shows what is left over.

    python tests/tools/virtual_gpu/calibration/calibrate.py count   # counters of every point, anew
    python tests/tools/virtual_gpu/calibration/calibrate.py fit     # constants and residuals

h200.jsonl holds what measure.cu printed on one H200 (CUDA 13.0, driver 580): nvcc -arch=sm_90 -O3,
the two files of silu_and_mul with --use_fast_math as in their task. counters.jsonl holds what the
virtual GPU counts of the same launches.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from astra_chat.tools.toolkit import find_toolkit
from astra_chat.tools.virtual_gpu.estimate import FITTED, Constants, estimate
from astra_chat.tools.virtual_gpu.gpu import VirtualGpu, device_array
from astra_chat.tools.virtual_gpu.runtime import ensure_runtime
from astra_chat.tools.virtual_gpu.specs import spec
from astra_chat.tools.virtual_gpu.types import Counters, Dim3, Launch, LaunchReport

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
SAMPLE_INSTRUCTIONS = 20_000_000
HELD_OUT = ("rms_", "softmax", "transpose", "gather")
"""Launchers that the fit does not see."""


@dataclass(frozen=True)
class Point:
    """One measured call and what the virtual GPU counted of it."""

    key: dict[str, Any]
    cold_us: float
    reports: tuple[LaunchReport, ...]
    resources: dict[str, tuple[int, int]]

    @property
    def held_out(self) -> bool:
        return str(self.key["launcher"]).startswith(HELD_OUT)

    @property
    def label(self) -> str:
        k = self.key
        name = Path(k["source"]).stem if k["launcher"] == "silu_and_mul" else k["launcher"]
        return f"{name} {k['rows']}x{k['d']} {('f32', 'f16', 'bf16')[k['dtype']]}"

    def log_error(self, constants: Constants) -> float:
        """ln(estimated / measured)."""
        found = estimate(self.reports, self.resources, spec("h200"), constants)
        return math.log(found.us / self.cold_us)


KEY = ("source", "launcher", "rows", "d", "dtype")


def measured() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / "h200.jsonl").read_text().splitlines()]


def points() -> list[Point]:
    """Every measured point with its stored counters."""
    lines = (HERE / "counters.jsonl").read_text().splitlines()
    counted = {tuple(row[k] for k in KEY): row for row in map(json.loads, lines)}
    return [
        Point(
            key={k: row[k] for k in KEY},
            cold_us=row["cold_us"],
            reports=tuple(read_report(r) for r in found["reports"]),
            resources={k: tuple(v) for k, v in found["resources"].items()},
        )
        for row in measured()
        if (found := counted.get(tuple(row[k] for k in KEY)))
    ]


def read_report(stored: dict[str, Any]) -> LaunchReport:
    launch, counters = dict(stored["launch"]), dict(stored["counters"])
    counters["warp_instructions"] = Counter(counters["warp_instructions"])
    launch = Launch(
        launch["kernel"], Dim3(*launch["grid"]), Dim3(*launch["block"]),
        launch["dynamic_shared_bytes"], b"",
    )  # fmt: skip
    return LaunchReport(launch, stored["blocks_run"], Counters(**counters))


def _stored(report: LaunchReport) -> dict[str, Any]:
    launch = report.launch
    return {
        "launch": {
            "kernel": launch.kernel,
            "grid": [launch.grid.x, launch.grid.y, launch.grid.z],
            "block": [launch.block.x, launch.block.y, launch.block.z],
            "dynamic_shared_bytes": launch.dynamic_shared_bytes,
        },
        "blocks_run": report.blocks_run,
        "counters": vars(report.counters),
    }


def count(wanted: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Counters of these points, in the form of counters.jsonl."""
    by_source = defaultdict(list)
    for row in wanted:
        by_source[row["source"]].append(row)
    with tempfile.TemporaryDirectory(prefix="astra-calibrate-") as name:
        for source, rows in by_source.items():
            gpu = VirtualGpu(spec("h200"), sample_instructions=SAMPLE_INSTRUCTIONS)
            library, resources = _load(gpu, source, Path(name))
            for row in rows:
                yield _count_one(gpu, library, resources, row)


def _load(gpu: VirtualGpu, source: str, folder: Path) -> tuple[Any, dict[str, tuple[int, int]]]:
    toolkit = find_toolkit()
    runtime = ensure_runtime(toolkit.cxx, toolkit.include_dir, folder)
    path = HERE / source if (HERE / source).is_file() else ROOT / source
    fast = ["--use_fast_math"] if path.parent != HERE else []
    command = [
        str(toolkit.nvcc), "-gencode", "arch=compute_90,code=[sm_90,compute_90]", "-std=c++17",
        "-O3", *fast, "-Xptxas", "-v", "-cudart", "none", "-shared", "-Xcompiler", "-fPIC", "-keep",
        "-keep-dir", str(folder), "-o", str(folder / f"{path.stem}.so"), str(path), f"-L{runtime}",
        "-lvcudart",
    ]  # fmt: skip
    log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = re.findall(
        r"entry function '(\S+)'.*?Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?", log, re.DOTALL
    )
    resources = {kernel: (int(used), int(shared or 0)) for kernel, used, shared in found}
    library = gpu.load(folder / f"{path.stem}.so", folder / f"{path.stem}.ptx", resources)
    return library, resources


def _count_one(
    gpu: VirtualGpu, library: Any, resources: dict[str, tuple[int, int]], row: dict[str, Any]
) -> dict[str, Any]:
    import ctypes

    item = 4 if row["dtype"] == 0 else 2
    arrays = [device_array(row["rows"] * 2 * row["d"] * item) for _ in range(2)]
    for array in arrays:
        array[:] = 0x38  # as measure.cu fills it: 0.527 in fp16
    addresses = [gpu.register(a, n) for a, n in zip(arrays, ("out", "in"), strict=True)]
    gpu.reset()
    try:
        status = getattr(library, row["launcher"])(
            ctypes.c_void_p(addresses[0]), ctypes.c_void_p(addresses[1]),
            ctypes.c_int64(row["rows"]), ctypes.c_int64(row["d"]), row["dtype"], None,
        )  # fmt: skip
        if status or gpu.fault:
            raise RuntimeError(f"{row}: CUDA error {status}: {gpu.fault}")
    finally:
        for address in addresses:
            gpu.unregister(address)
    used = {r.launch.kernel: resources[r.launch.kernel] for r in gpu.reports()}
    return {
        **{k: row[k] for k in KEY},
        "resources": used,
        "reports": [_stored(r) for r in gpu.reports()],
    }


def fit(training: list[Point]) -> Constants:
    """Coordinate descent on the mean squared log-error."""
    best = FITTED
    error = _mean_square(training, best)
    step = 0.2
    while step > 0.005:
        improved = False
        for name, sign in itertools.product(asdict(best), (1, -1)):
            tried = replace(best, **{name: getattr(best, name) * (1 + sign * step)})
            if tried.overlap >= 1 and (found := _mean_square(training, tried)) < error - 1e-9:
                best, error, improved = tried, found, True
        if not improved:
            step /= 2
    return best


def _mean_square(chosen: list[Point], constants: Constants) -> float:
    return sum(p.log_error(constants) ** 2 for p in chosen) / len(chosen)


def summary(chosen: list[Point], constants: Constants) -> str:
    errors = sorted(abs(math.expm1(p.log_error(constants))) for p in chosen)
    p90 = errors[int(0.9 * len(errors))]
    return (
        f"{len(errors)} points: median error {median(errors):.1%}, 90 % within {p90:.1%}, "
        f"worst {errors[-1]:.1%}; pairs of one shape >10 % apart in the right order: "
        f"{ordered(chosen, constants):.1%}"
    )


def ordered(chosen: list[Point], constants: Constants) -> float:
    """Of pairs of launchers on one shape and task that differ by 10 %: the share ranked right."""
    right = total = 0
    for a, b in itertools.combinations(chosen, 2):
        same = all(a.key[k] == b.key[k] for k in ("rows", "d", "dtype"))
        family = str(a.key["launcher"])[:4] == str(b.key["launcher"])[:4]
        apart = math.log(a.cold_us / b.cold_us)
        if same and family and abs(apart) > math.log(1.1):
            guess = (
                math.log(a.cold_us / b.cold_us) + a.log_error(constants) - b.log_error(constants)
            )
            right, total = right + (guess * apart > 0), total + 1
    return right / total


def main(what: str) -> None:
    if what == "count":
        with (HERE / "counters.jsonl").open("w") as out:
            for row in count(measured()):
                print(json.dumps(row), file=out, flush=True)
        return
    every = points()
    training = [p for p in every if not p.held_out]
    constants = fit(training)
    print(constants)
    for point in every:
        found = estimate(point.reports, point.resources, spec("h200"), constants)
        terms = " ".join(f"{n} {us:.2f}" for n, us in found.terms.items())
        mark = "held out" if point.held_out else ""
        print(
            f"{point.label:36s} {point.cold_us:8.2f} {found.us:8.2f} "
            f"{found.us / point.cold_us - 1:+5.0%} {mark:8s} {terms}"
        )
    print("fitted  ", summary(training, constants))
    print("held out", summary([p for p in every if p.held_out], constants))
    print("as is   ", summary(every, FITTED))


if __name__ == "__main__":
    main(*sys.argv[1:])
