from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from astra_chat.tools.errors import BadInput
from astra_chat.tools.virtual_gpu.validation.points import read_points

CALIBRATED = Path(__file__).parents[1] / "calibration"


def test_the_set_is_large_and_has_variants_of_every_task() -> None:
    points = read_points()
    tasks: dict[str, set[str]] = {}
    for point in points:
        tasks.setdefault(point.task, set()).add(point.variant)
    assert len(tasks) >= 30 and all(len(variants) >= 2 for variants in tasks.values())
    assert max(Counter(p.key for p in points).values()) == 1
    assert all(p.variant in p.source.read_text() for p in points)


def test_no_kernel_is_calibrated_on_and_validated_by() -> None:
    validated = {p.variant for p in read_points()}
    for name in ("mechanisms", "general"):
        points = read_points(CALIBRATED / name)
        assert points and not validated & {p.variant for p in points}


def test_a_folder_without_a_set_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "set.toml").write_text("[[task]]\nname = 3")
    with pytest.raises(BadInput, match="holds no set of kernels"):
        read_points(tmp_path)
