from __future__ import annotations

from pathlib import Path

from astra_chat.tools.virtual_gpu.specs import spec
from astra_chat.tools.virtual_gpu.validation.counted import (
    count,
    read_counts,
    write_counts,
)
from astra_chat.tools.virtual_gpu.validation.points import HERE, read_points

WANTED = {"row_offsets_quads", "long_sum_then_scan"}


def test_the_counters_on_file_are_what_is_counted_and_can_be_kept(tmp_path: Path) -> None:
    points = [p for p in read_points() if p.variant in WANTED and p.a in (32, 64)]
    counted = list(count(points, spec("h200")))
    write_counts(counted, tmp_path / "c.jsonl")
    kept, on_file = read_counts(tmp_path / "c.jsonl"), read_counts(HERE / "counters.jsonl")
    assert kept.keys() == {p.key for p in points} and len(points) == 2
    for key, found in kept.items():
        assert [r.counters for r in found.reports] == [r.counters for r in on_file[key].reports]
