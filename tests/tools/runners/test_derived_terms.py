"""The band that no one states covers a sum in any order, also of numbers that follow a pattern."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from astra_chat.tools.runners.answers import read
from astra_chat.tools.runners.oracle import _write_case
from astra_chat.tools.runners.references import load_reference
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.types import Case, ValueFamily

GEMM = load_task(Path(__file__).parents[2] / "attacks" / "tasks" / "gemm")


@pytest.mark.parametrize("values", ["normal", "ramp"])
def test_products_added_one_by_one_stay_within_the_band(
    tmp_path: Path, values: ValueFamily
) -> None:
    """Parts of a ramp's sum are much larger than the sum: errors were twice the band there."""
    case = Case(dims={"m": 128, "n": 368, "k": 176}, dtype="float16", values=values, seed=11)
    reference = load_reference(GEMM)
    _write_case(GEMM, reference, case, tmp_path, tmp_path, given=False)
    a, b = (
        read(tmp_path / f"{arg.name}.in", arg, case).float().numpy()
        for arg in GEMM.args
        if arg.read
    )
    total = np.zeros((128, 368), np.float32)
    for place in range(176):
        total += a[:, place, None] * b[None, :, place]
    exact = np.fromfile(tmp_path / "c.expected").reshape(total.shape)
    terms = np.fromfile(tmp_path / "c.derived", np.float32).reshape(total.shape)
    assert (np.abs(total - exact) / (terms * GEMM.band_factor(case))).max() < 0.5
