from __future__ import annotations

from pathlib import Path

import numpy as np

from astra_chat.tools.virtual_gpu.specs import spec
from astra_chat.tools.virtual_gpu.validation.counted import (
    count,
    read_counts,
    words,
    write_counts,
)
from astra_chat.tools.virtual_gpu.validation.points import HERE, read_points

WANTED = {"hash_by_warp", "small_products_by_mma"}


def test_the_counters_on_file_are_what_is_counted_and_can_be_kept(tmp_path: Path) -> None:
    points = [p for p in read_points() if p.variant in WANTED and p.a in (256, 512)]
    counted = list(count(points, spec("h200")))
    write_counts(counted, tmp_path / "c.jsonl")
    kept, on_file = read_counts(tmp_path / "c.jsonl"), read_counts(HERE / "counters.jsonl")
    assert kept.keys() == {p.key for p in points} and len(points) == 2
    for key, found in kept.items():
        assert [r.counters for r in found.reports] == [r.counters for r in on_file[key].reports]


def test_words_are_pairs_of_halves_from_0_to_2() -> None:
    found = words(1 << 16).view(np.float16).astype(np.float32)
    assert found.min() >= 0 and found.max() < 2 and found.std() > 0.1
    assert words(3).tolist() == words(1 << 10)[:3].tolist()
