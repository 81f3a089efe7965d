"""The benchmark's table: one row a kernel and shape, with times."""

from __future__ import annotations

import os

import pytest

from lab.virtual_gpu import bench


@pytest.mark.second_tier
def test_every_kernel_is_timed_at_every_shape(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "SHAPES", ((2, 256), (3, 512)))
    cache = os.environ.get("ASTRA_CACHE")
    bench.bench()
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "[" in line]
    assert [row[0] for row in rows[::2]] == list(bench.KERNELS)
    for row in rows:
        assert all(float(cell) > 0 for cell in row[-4:])
    assert os.environ.get("ASTRA_CACHE") == cache
