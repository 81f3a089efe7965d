"""The command `validate`: error of the time estimate over kernels that it was not fitted to."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.recordings.reading import in_archive
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import GpuSpec, spec
from astra_vgpu.model.estimate import estimate
from lab.virtual_gpu.validation import counted, measured
from lab.virtual_gpu.validation.points import HERE, read_points
from lab.virtual_gpu.validation.score import Scored, score


def validate(device: str, folder: Path | None, out: Path | None, *, again: bool) -> None:
    """On `cuda` measures every point of the set in `folder` and keeps the times in `out`; on
    `virtual` prints each estimate beside its time, and the score.

    `again`: count again what the kernels do, which is kept beside the set, and keep it in `out`.
    Raises BadInput for a set without times.
    """
    place = folder or HERE
    points = read_points(place)
    if device == "cuda":
        kept = out or Path(measured.TIMES)
        name, complaints = measured.measure(points, kept)
        print(f"{len(measured.read_times(kept))} of {len(points)} points on {name}: {kept}")
        print(*complaints, sep="\n", end="\n" if complaints else "")
        return
    gpu = spec("h200")
    counters, times = counted.on_file(place, counted.COUNTERS), measured.times_of(place)
    if again:
        counters = out or Path(counted.COUNTERS)
        counted.write_counts(counted.count(points, gpu), counters)
    for part in (times, counters):
        if not (in_archive(part) or part.is_file()):
            raise BadInput(f"no {part}: run validate --device cuda, or validate --again, first")
    recorded = measured.read_times(times), counted.read_counts(counters)
    cold = compared(place, *recorded, gpu, warm=False)
    warm = compared(place, *recorded, gpu, warm=True)
    print(f"{'':46}{'cold us':>10}{'estimated':>11}{'':7}{'warm us':>10}{'estimated':>11}")
    for a, b in zip(cold, warm, strict=True):
        print(
            f"{a.name:46}{a.measured_us:10.2f}{a.estimated_us:11.2f}{a.error:+7.0%}"
            f"{b.measured_us:10.2f}{b.estimated_us:11.2f}{b.error:+7.0%}"
        )
    print(f"cold: {score(cold)}\nwarm: {score(warm)}")


def compared(
    folder: Path, times: measured.Times, counts: counted.Counts, gpu: GpuSpec, *, warm: bool
) -> list[Scored]:
    """Every point that has both a time and counters."""
    return [
        Scored(
            point.shape,
            f"{point.variant} {point.a}x{point.b}",
            time.warm_us if warm else time.cold_us,
            estimate(counted_point.reports, counted_point.resources, gpu, warm=warm).us,
        )
        for point, counted_point in counted.pick(read_points(folder), counts)
        if (time := times.get(point.key))
    ]
