"""Bank conflicts that follow from the words by hand."""

from __future__ import annotations

import numpy as np
import pytest

from astra_vgpu.numpy_engine.counters import BANKS, conflicts

LANES = np.arange(BANKS, dtype=np.int64)


@pytest.mark.parametrize(
    ("words", "parts", "turns"),
    [
        (LANES, 1, 1),
        (0 * LANES, 1, 1),
        (2 * LANES, 1, 2),
        (8 * LANES, 1, 8),
        (BANKS * LANES, 1, 32),
        ((BANKS + 1) * LANES, 1, 1),
        (4 * LANES[:8], 4, 1),
        (4 * LANES, 4, 4),
        (8 * LANES[:8], 4, 2),
    ],
)
def test_words_of_one_bank_come_one_after_the_other(
    words: np.ndarray, parts: int, turns: int
) -> None:
    assert conflicts(words[None, :], parts) == turns
    assert conflicts(np.stack([words, words]), parts) == 2 * turns
