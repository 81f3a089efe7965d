from __future__ import annotations

from pathlib import Path

import pytest

from astra_vgpu.ground.gpu_specs import spec
from lab.virtual_gpu.validation.counted import COUNTERS, count, on_file, read_counts, write_counts
from lab.virtual_gpu.validation.points import HERE, read_points
from tests.lab.virtual_gpu.counters_on_file import as_on_file

CALIBRATED = HERE.parent / "calibration"
WANTED = {"row_offsets_quads", "long_sum_then_scan"}


@pytest.mark.parametrize("folder", [HERE, CALIBRATED / "served"], ids=lambda f: f.name)
def test_every_point_of_a_set_was_counted(folder: Path) -> None:
    assert read_counts(on_file(folder, COUNTERS)).keys() == {p.key for p in read_points(folder)}


@pytest.mark.second_tier
def test_the_counters_on_file_are_what_is_counted_and_can_be_kept(tmp_path: Path) -> None:
    mixed = CALIBRATED / "mixed"
    points = [p for p in read_points(mixed) if p.variant in WANTED and p.a in (32, 64)]
    counted = list(count(points, spec("h200")))
    write_counts(counted, tmp_path / "c.jsonl")
    kept, known_counts = read_counts(tmp_path / "c.jsonl"), read_counts(on_file(mixed, COUNTERS))
    assert kept.keys() == {p.key for p in points} and len(points) == 2
    for key, found in kept.items():
        known = [as_on_file(r.counters) for r in found.reports]
        assert known == [r.counters for r in known_counts[key].reports]
