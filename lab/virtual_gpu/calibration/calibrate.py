"""Fits the constants of estimate.py to times measured on an H200, and shows what is left over.

    python -m lab.virtual_gpu.calibration.calibrate count   # counters of every point, again
    python -m lab.virtual_gpu.calibration.calibrate fit     # constants and residuals

Six sets, none of which is the validation set: kernels.cu with the two files of silu_and_mul
(h200.jsonl is what measure.cu printed on one H200: CUDA 13.0, driver 580, nvcc -arch=sm_90 -O3,
the task's files with --use_fast_math); mechanisms/, general/, varied/, mixed/ and served/, in the
form of the validation set, measured and counted by `validate --set`. general/, varied/, mixed/,
served/ were the validation set, in this order, until their results had been looked at.
counters.jsonl holds what the virtual GPU counts. Both are members of ../recorded.tar.xz.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.gpu import VirtualGpu
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.memory import block_races
from astra_vgpu.model.constants import FITTED, Constants
from astra_vgpu.model.estimate import estimate
from astra_vgpu.runtime.calls import device_array
from astra_vgpu.runtime.compile import compile_file
from astra_vgpu.types import LaunchReport
from lab.virtual_gpu.validation.counted import (
    COUNTERS,
    on_file,
    pick,
    read_counts,
    read_report,
    read_rows,
    stored,
    write_counts,
)
from lab.virtual_gpu.validation.counted import count as count_set
from lab.virtual_gpu.validation.measured import read_times, times_of
from lab.virtual_gpu.validation.points import read_points
from lab.virtual_gpu.validation.score import Scored, score

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SAMPLE_INSTRUCTIONS = 20_000_000
SETS = tuple(HERE / name for name in ("mechanisms", "general", "varied", "mixed", "served"))
LINEAR = 0.35
STEPS, STEP = 12, 0.03
FAIR = {"overlap": (1.0, 8.0), "hiding": (1.0, 6.0), "phases": (0.0, 1.0)}
Errors = NDArray[np.float64]


@dataclass(frozen=True)
class CalibrationPoint:
    """One measured call and what the virtual GPU counted of it."""

    key: dict[str, Any]
    label: str
    group: tuple[Hashable, ...]
    """Points of one group are variants of one task at one shape."""
    cold_us: float
    warm_us: float
    reports: tuple[LaunchReport, ...]
    resources: dict[str, tuple[int, int]]

    def log_error(self, constants: Constants, *, warm: bool = False) -> float:
        """ln(estimated / measured)."""
        found = estimate(self.reports, self.resources, spec("h200"), constants, warm=warm)
        return math.log(found.us / (self.warm_us if warm else self.cold_us))


def _label(k: dict[str, Any]) -> str:
    name = Path(k["source"]).stem if k["launcher"] == "silu_and_mul" else k["launcher"]
    return f"{name} {k['rows']}x{k['d']} {('f32', 'f16', 'bf16')[k['dtype']]}"


def _family(k: dict[str, Any]) -> str:
    return str(k["launcher"])[:4]


KEY = ("source", "launcher", "rows", "d", "dtype")


def measured() -> list[dict[str, Any]]:
    return read_rows(times_of(HERE))


def points() -> list[CalibrationPoint]:
    """Every measured point with its stored counters."""
    counted = {tuple(row[k] for k in KEY): row for row in read_rows(on_file(HERE, COUNTERS))}
    return [
        CalibrationPoint(
            key={k: row[k] for k in KEY},
            label=_label(row),
            group=(_family(row), row["rows"], row["d"], row["dtype"]),
            cold_us=row["cold_us"],
            warm_us=row["warm_us"],
            reports=tuple(read_report(r) for r in found["reports"]),
            resources={k: tuple(v) for k, v in found["resources"].items()},
        )
        for row in measured()
        if (found := counted.get(tuple(row[k] for k in KEY)))
    ]


def of_set(folder: Path) -> list[CalibrationPoint]:
    """Every point of a set in the form of the validation set."""
    times = read_times(times_of(folder))
    counts = read_counts(on_file(folder, COUNTERS))
    return [
        CalibrationPoint(
            {},
            f"{point.variant} {point.a}x{point.b}",
            point.shape,
            times[point.key].cold_us,
            times[point.key].warm_us,
            found.reports,
            found.resources,
        )
        for point, found in pick(read_points(folder), counts)
    ]


def every_point() -> list[CalibrationPoint]:
    return [*points(), *(point for folder in SETS for point in of_set(folder))]


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
    path = HERE / source if (HERE / source).is_file() else ROOT / source
    fast = ["--use_fast_math"] if path.parent != HERE else []
    built = compile_file(path, folder, gpu.spec, ("-std=c++17", "-O3", *fast))
    return gpu.load(built.library, built.ptx, built.resources), built.resources


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
            ctypes.c_void_p(addresses[0]),
            ctypes.c_void_p(addresses[1]),
            ctypes.c_int64(row["rows"]),
            ctypes.c_int64(row["d"]),
            row["dtype"],
            None,
        )
        if status or gpu.fault:
            raise RuntimeError(f"{row}: CUDA error {status}: {gpu.fault}")
    finally:
        for address in addresses:
            gpu.unregister(address)
    used = {r.launch.kernel: resources[r.launch.kernel] for r in gpu.reports()}
    return {
        **{k: row[k] for k in KEY},
        "resources": used,
        "reports": [stored(r) for r in gpu.reports()],
    }


def fit(training: Sequence[CalibrationPoint], best: Constants = FITTED) -> Constants:
    """Gauss-Newton on the logarithms of the constants, from `best` on. What is made small: the
    log-errors of points, cold and warm, and of the ratios between points of a group; squared, and
    linear beyond LINEAR, so that what the model does not know bends little."""
    names, damping = list(asdict(best)), 0.01
    pairs = _pairs(training)
    errors = _errors(training, pairs, best)
    for _ in range(STEPS):
        slopes = np.array(
            [
                (_errors(training, pairs, _moved(best, {name: STEP})) - errors) / STEP
                for name in names
            ]
        )
        weighted = slopes / np.maximum(1, np.abs(errors) / LINEAR)
        curvature = weighted @ slopes.T
        damped = curvature + damping * np.diag(np.diag(curvature) + 1e-3)
        move = np.clip(np.linalg.solve(damped, -weighted @ errors), -0.5, 0.5)
        tried = _moved(best, dict(zip(names, move, strict=True)))
        found = _errors(training, pairs, tried)
        gain = 1 - _cost(found) / _cost(errors)
        damping *= 0.3 if gain > 0 else 10
        if gain > 0:
            best, errors = tried, found
        if 0 < gain < 1e-3:
            break
    return best


def _moved(constants: Constants, by: dict[str, float]) -> Constants:
    """Each constant times e to its number, no further than it may go."""
    found = {name: getattr(constants, name) * math.exp(step) for name, step in by.items()}
    for name, (least, most) in FAIR.items():
        if name in found:
            found[name] = min(max(found[name], least), most)
    return replace(constants, **found)


def _cost(errors: Errors) -> float:
    size = np.abs(errors)
    return float(np.where(size < LINEAR, size**2, LINEAR * (2 * size - LINEAR)).sum())


def _errors(
    training: Sequence[CalibrationPoint], pairs: NDArray[np.intp], constants: Constants
) -> Errors:
    cold, warm = (
        np.array([point.log_error(constants, warm=warm) for point in training])
        for warm in (False, True)
    )
    ratios = [each[pairs[:, 0]] - each[pairs[:, 1]] for each in (cold, warm)]
    return np.concatenate([cold, warm, *ratios])


def _pairs(training: Sequence[CalibrationPoint]) -> NDArray[np.intp]:
    """Indices of two points of one group, [pairs, 2]."""
    groups = defaultdict(list)
    for index, point in enumerate(training):
        groups[point.group].append(index)
    found = [pair for group in groups.values() for pair in itertools.combinations(group, 2)]
    return np.array(found, np.intp).reshape(-1, 2)


def scored(
    chosen: list[CalibrationPoint], constants: Constants, *, warm: bool = False
) -> list[Scored]:
    return [
        Scored(
            p.group,
            p.label,
            measured := p.warm_us if warm else p.cold_us,
            measured * math.exp(p.log_error(constants, warm=warm)),
        )
        for p in chosen
    ]


def main(what: str) -> None:
    if what == "count":
        os.environ[block_races.SWITCH] = "off"  # blocks of a scatter write where others do
        with (HERE / COUNTERS).open("w") as out:
            for row in count(measured()):
                print(json.dumps(row), file=out)
        for folder in SETS:
            write_counts(count_set(read_points(folder), spec("h200")), folder / COUNTERS)
        return
    every = every_point()
    constants = fit(every)
    print(constants)
    for point in every:
        found = estimate(point.reports, point.resources, spec("h200"), constants)
        terms = " ".join(f"{n} {us:.2f}" for n, us in found.terms.items())
        print(
            f"{point.label:36s} {point.cold_us:8.2f} {found.us:8.2f} "
            f"{found.us / point.cold_us - 1:+5.0%} {terms}"
        )
    for name, chosen in (("fitted", constants), ("as is", FITTED)):
        print(f"{name}, cold: {score(scored(every, chosen))}")
        print(f"{name}, warm: {score(scored(every, chosen, warm=True))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
