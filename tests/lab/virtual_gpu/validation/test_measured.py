from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from astra_vgpu.ground.errors import MissingDependency
from lab.virtual_gpu.validation.measured import measure, read_times, run_all, times_of
from lab.virtual_gpu.validation.points import HERE, read_points

CALIBRATED = HERE.parent / "calibration"


@pytest.mark.parametrize("name", ["validation", "general", "varied", "mixed", "served"])
def test_every_point_of_a_set_was_measured(name: str) -> None:
    folder = HERE if name == "validation" else CALIBRATED / name
    times = read_times(times_of(folder))
    assert times.keys() == {p.key for p in read_points(folder)}
    assert all(0.5 < each.warm_us < 1.4 * each.cold_us for each in times.values())


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there is a GPU here")
@pytest.mark.second_tier
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(MissingDependency, match=r"(measure|nvcc) failed"):
        measure(read_points()[:1], tmp_path / "out.jsonl")


DIES = """#!/bin/sh
echo "GPU: one that dies of the kernel named third" >&2
while read -r name; do
  if [ "$name" = third ]; then echo "first launch: an illegal memory access" >&2; exit 1; fi
  echo "{\\"launcher\\": \\"$name\\"}"
done
"""


def test_a_kernel_that_fails_costs_no_other_its_time(tmp_path: Path) -> None:
    tool, out = tmp_path / "measure", tmp_path / "out.jsonl"
    tool.write_text(DIES)
    tool.chmod(0o700)
    points = read_points()[:5]
    lines = dict(zip(points, ["first", "second", "third", "fourth", "fifth\n"], strict=True))
    gpu, failed = run_all(tool, lines, out)
    assert gpu == "one that dies of the kernel named third"
    assert failed == {points[2]: f"{points[2].variant}: first launch: an illegal memory access"}
    names = [json.loads(row)["launcher"] for row in out.read_text().splitlines()]
    assert names == ["first", "second", "fourth", "fifth"]


@pytest.mark.gpu
def test_times_of_a_gpu(tmp_path: Path) -> None:
    points = [p for p in read_points() if p.variant == "int8_product_tensor"]
    name, complaints = measure(points, tmp_path / "out.jsonl")
    assert name and not complaints
    times = read_times(tmp_path / "out.jsonl")
    assert times.keys() == {p.key for p in points}
