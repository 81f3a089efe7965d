from __future__ import annotations

import numpy as np

from astra_vgpu.numpy_engine.first_touch import KeySet


def test_a_set_of_numbers_knows_which_are_new() -> None:
    rng = np.random.default_rng(3)
    known: dict[int, int] = {}
    keys = KeySet()
    for size in (1, 1000, 5000, 5000):
        drawn = np.unique(rng.integers(1, 8000, size).astype(np.uint64))
        notes = rng.integers(1, 99, drawn.size)
        new, before = keys.add(drawn, notes)
        assert new.tolist() == [int(k) not in known for k in drawn]
        assert before.tolist() == [known.get(int(k), 0) for k in drawn]
        known.update(zip(map(int, drawn), map(int, notes), strict=True))
