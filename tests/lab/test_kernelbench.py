"""Problems of KernelBench are drawn by a seed; bad folders are one message."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_vgpu.ground.errors import BadInput
from lab.kernelbench import COUNTS, drawn


def test_a_seed_draws_the_same_problems(tmp_path: Path) -> None:
    for level in COUNTS:
        (tmp_path / f"level{level}").mkdir()
        for number in range(1, 11):
            (tmp_path / f"level{level}/{number}_name.py").touch()
    found = drawn(tmp_path, "51")
    assert found == drawn(tmp_path, "51") != drawn(tmp_path, "52")
    assert [level for level, _ in found] == [1] * 6 + [2] * 4 + [3] * 2
    assert len(set(found)) == 12
    with pytest.raises(BadInput, match="level1 has fewer"):
        drawn(tmp_path / "none", "51")
