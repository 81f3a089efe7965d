from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from astra_vgpu.ground.gpu_specs import spec
from lab.virtual_gpu.validation.counted import count
from lab.virtual_gpu.validation.points import HERE, Point, input_of, read_points
from lab.virtual_gpu.validation.references import REFERENCES, bf16, wrong

FIRST: dict[str, Point] = {}
for _point in read_points():
    FIRST.setdefault(_point.variant, _point)
OF_TASK = {p.task: p for p in FIRST.values()}


def right_output(point: Point) -> np.ndarray:
    """What the reference says, as bytes."""
    parts = REFERENCES[point.task](input_of(point), point.a, point.b)
    out = np.zeros(point.out_bytes, np.uint8)
    offset = 0
    for part in parts:
        if part.dtype == "bf16":
            floats = part.values.astype(np.float32).view(np.uint32)
            raw = ((floats + np.uint32(0x8000)) >> np.uint32(16)).astype(np.uint16)
        else:
            raw = np.ascontiguousarray(part.values).astype(part.dtype)
        out[offset : offset + raw.nbytes] = raw.reshape(-1).view(np.uint8)
        offset += raw.nbytes
    return out


def parts_of(point: Point) -> Iterator[tuple[int, int]]:
    """Offset of a number of each part, the third or the only one, and its bytes."""
    offset = 0
    for part in REFERENCES[point.task](input_of(point), point.a, point.b):
        width = 2 if part.dtype == "bf16" else np.dtype(part.dtype).itemsize
        yield offset + width * min(2, part.values.size - 1), width
        offset += width * part.values.size


def test_every_task_has_a_reference() -> None:
    assert OF_TASK.keys() == REFERENCES.keys()


@pytest.mark.second_tier
@pytest.mark.parametrize("source", sorted(p.name for p in (HERE / "kernels").glob("*.cu")))
def test_every_kernel_computes_its_reference(source: str) -> None:
    """`count` compares the results, where no block was left out."""
    points = [p for p in FIRST.values() if p.source.name == source]
    counted = dict(count(points, spec("h200")))
    assert counted.keys() == set(points)
    assert not any(r.sampled for found in counted.values() for r in found.reports)


@pytest.mark.parametrize("task", OF_TASK)
def test_one_wrong_number_is_seen_in_each_part(task: str) -> None:
    point = OF_TASK[task]
    out = right_output(point)
    assert wrong(point, out) == ""
    for offset, width in parts_of(point):
        spoiled = out.copy()
        spoiled[offset + width - 1] ^= 0x10
        assert "; 1 are wrong" in wrong(point, spoiled)


def test_a_task_without_a_reference_is_not_judged() -> None:
    point = Point("else", "name", 1, 1, Path("x.cu"), 4, 4)
    assert wrong(point, np.zeros(4, np.uint8)) == ""


def test_bf16_is_the_upper_half_of_fp32() -> None:
    raw = np.array([0x3F80, 0xC040, 0x0001], np.uint16)
    assert bf16(raw).tolist() == [1.0, -3.0, 2.0**-133]
