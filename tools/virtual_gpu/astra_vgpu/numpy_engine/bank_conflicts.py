"""Bank conflicts of shared memory, and of L1's data, whose banks are the same."""

from __future__ import annotations

import numpy as np

from astra_vgpu.numpy_engine.dtypes import Array

BANKS = 32
"""Each delivers a word of four bytes at a time."""


def conflicts(rows: Array, parts: int) -> int:
    """Sum over rows of the most different words that any one bank must deliver.

    rows: first word of each lane, int64; a lane takes `parts` words.
    """
    words = (rows[:, :, None] + np.arange(parts)).reshape(rows.shape[0], -1)
    words = np.sort(words, axis=1)
    fresh = np.ones(words.shape, np.bool_)
    fresh[:, 1:] = words[:, 1:] != words[:, :-1]
    row = np.broadcast_to(np.arange(rows.shape[0])[:, None], words.shape)
    key = (row * BANKS + words % BANKS)[fresh]
    counts = np.bincount(key, minlength=rows.shape[0] * BANKS).reshape(-1, BANKS)
    return int(counts.max(axis=1).sum())
