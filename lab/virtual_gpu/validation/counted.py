"""Counters of a set's points, from the virtual GPU."""

from __future__ import annotations

import ctypes
import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from astra_chat.tools.recordings.reading import names_in, read_recorded
from astra_vgpu.gpu import VirtualGpu
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import GpuSpec
from astra_vgpu.runtime.calls import device_array
from astra_vgpu.runtime.compile import compile_file
from astra_vgpu.types import Counters, Dim3, Engine, Launch, LaunchReport
from lab.virtual_gpu.validation.points import Point, input_of
from lab.virtual_gpu.validation.references import wrong

COUNTERS = "counters.jsonl"
RECORDED = Path(__file__).parents[1] / "recorded.tar.xz"
"""What was measured and counted of every set; `python -m lab.recordings add` puts a new file in."""
SAMPLE_INSTRUCTIONS = 20_000_000
"""Thread instructions of a launch above which only a sample of its blocks runs."""


@dataclass(frozen=True)
class Counted:
    """Launch reports and kernel resources of one point."""

    reports: tuple[LaunchReport, ...]
    resources: dict[str, tuple[int, int]]


Counts = dict[tuple[str, int, int], Counted]
"""Counts by Point.key."""


def count(
    points: Iterable[Point], spec: GpuSpec, engine: Engine = "auto"
) -> Iterator[tuple[Point, Counted]]:
    """Runs every point once. Raises BadInput for a kernel that fails, for one that the virtual GPU
    lacks something for, and for one whose blocks all ran and did not compute its reference."""
    with tempfile.TemporaryDirectory(prefix="astra-count-") as name:
        for source, of_source in itertools.groupby(points, key=lambda p: p.source):
            gpu = VirtualGpu(spec, sample_instructions=SAMPLE_INSTRUCTIONS, engine=engine)
            built = compile_file(source, Path(name), spec)
            library = gpu.load(built.library, built.ptx, built.resources)
            for point in of_source:
                reports = _run(gpu, library, point)
                kernels = {r.launch.kernel for r in reports}
                yield point, Counted(reports, {k: built.resources[k] for k in kernels})


def _run(gpu: VirtualGpu, library: Any, point: Point) -> tuple[LaunchReport, ...]:
    arrays = {"out": device_array(point.out_bytes), "in": device_array(point.in_bytes)}
    arrays["out"][:] = 0
    arrays["in"].view(np.uint32)[:] = input_of(point)
    addresses = {name: gpu.register(array, name) for name, array in arrays.items()}
    gpu.reset()
    try:
        status = getattr(library, point.variant)(
            ctypes.c_void_p(addresses["out"]),
            ctypes.c_void_p(addresses["in"]),
            ctypes.c_int64(point.a),
            ctypes.c_int64(point.b),
            None,
        )
        if status or gpu.fault:
            raise BadInput(f"{point.variant}: CUDA error {status}: {gpu.fault}")
        reports = tuple(gpu.reports())
        if not any(r.sampled for r in reports) and (mistake := wrong(point, arrays["out"])):
            raise BadInput(mistake)
        return reports
    finally:
        for address in addresses.values():
            gpu.unregister(address)


def write_counts(counts: Iterable[tuple[Point, Counted]], path: Path) -> None:
    """A JSON object a line."""
    with path.open("w") as out:
        for point, counted in counts:
            row = {
                "variant": point.variant,
                "a": point.a,
                "b": point.b,
                "resources": counted.resources,
                "reports": [stored(r) for r in counted.reports],
            }
            print(json.dumps(row), file=out)


def on_file(folder: Path, name: str) -> Path:
    """Returns where a set's times or counters are: beside the set, if a command wrote them there,
    else in the archive, where it has them. Raises BadInput for a damaged archive."""
    beside = folder.resolve() / name
    if beside.is_file() or not beside.is_relative_to(RECORDED.parent):
        return folder / name
    member = beside.relative_to(RECORDED.parent).as_posix()
    return RECORDED / member if member in names_in(RECORDED) else folder / name


def read_rows(path: Path) -> list[dict[str, Any]]:
    """JSON objects, one a line. Raises BadInput."""
    try:
        return [json.loads(line) for line in read_recorded(path).splitlines()]
    except ValueError as error:
        raise BadInput(f"cannot read {path}: {error}") from None


def read_counts(path: Path) -> Counts:
    """What `write_counts` wrote. Raises BadInput."""
    rows = read_rows(path)
    return {
        (row["variant"], row["a"], row["b"]): Counted(
            tuple(read_report(r) for r in row["reports"]),
            {kernel: tuple(v) for kernel, v in row["resources"].items()},
        )
        for row in rows
    }


def stored(report: LaunchReport) -> dict[str, Any]:
    """A report as JSON has it, without its parameters."""
    launch = asdict(report.launch)
    del launch["params"]
    return {"launch": launch, "blocks_run": report.blocks_run, "counters": vars(report.counters)}


def read_report(stored: dict[str, Any]) -> LaunchReport:
    """A report as write_counts keeps it, without its parameters."""
    launch, counters = stored["launch"], dict(stored["counters"])
    for name, value in vars(Counters()).items():
        if isinstance(value, Counter):
            counters[name] = Counter(counters.get(name, ()))
    return LaunchReport(
        Launch(
            launch["kernel"],
            Dim3(**launch["grid"]),
            Dim3(**launch["block"]),
            launch["dynamic_shared_bytes"],
            b"",
        ),
        stored["blocks_run"],
        Counters(**counters),
    )


def pick(points: Sequence[Point], counts: Counts) -> list[tuple[Point, Counted]]:
    """The points that were counted."""
    return [(point, counts[point.key]) for point in points if point.key in counts]
