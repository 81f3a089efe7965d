from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from astra_chat.tools.errors import EnvironmentLack
from astra_chat.tools.virtual_gpu.validation.measured import measure, read_times
from astra_chat.tools.virtual_gpu.validation.points import HERE, read_points


def test_every_point_of_the_set_was_measured() -> None:
    times = read_times(HERE / "h200.jsonl")
    assert times.keys() == {p.key for p in read_points()}
    assert all(0.5 < each.warm_us < 1.3 * each.cold_us for each in times.values())


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there is a GPU here")
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLack, match=r"(measure|nvcc) failed"):
        measure(read_points()[:1], tmp_path / "out.jsonl")


@pytest.mark.gpu
def test_times_of_a_gpu(tmp_path: Path) -> None:
    points = [p for p in read_points() if p.variant == "pool_by_pairs"]
    measure(points, tmp_path / "out.jsonl")
    times = read_times(tmp_path / "out.jsonl")
    assert times.keys() == {p.key for p in points}
