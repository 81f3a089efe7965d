"""Patterns that lie in buffers before a call."""

from __future__ import annotations

import random

import numpy as np

from astra_chat.tools.check.floats import as_float
from astra_chat.tools.run.requests import left_there


def test_outputs_hold_now_a_nan_and_now_an_ordinary_number() -> None:
    """Who takes a NaN for a sign that nobody wrote there would be wrong in a server."""
    draws = random.Random(1)
    patterns = [left_there(turn, draws) for turn in range(300)]
    finite = [pattern for pattern in patterns if not is_nan(pattern)]
    assert len(finite) == 100
    for pattern in finite:
        words = np.full(2, pattern, dtype=np.uint16)
        for dtype in ("float16", "bfloat16", "float32"):
            values = np.abs(as_float(words.view(np.uint8), dtype))
            assert (values >= 2).all() and np.isfinite(values).all()


def is_nan(pattern: int) -> bool:
    return bool(pattern & 0x7F80 == 0x7F80)
