"""The fitted constants: how near estimates come to times of an H200; no fit does better."""

from __future__ import annotations

import pytest

from astra_vgpu.model.constants import FITTED
from lab.virtual_gpu.calibration import calibrate
from lab.virtual_gpu.validation.score import score
from tests.lab.virtual_gpu.counters_on_file import as_on_file


def test_calibrated_points_lie_close() -> None:
    """What the constants were fitted to; it must not get worse."""
    every = calibrate.every_point()
    assert len(every) == 1426
    for warm in (False, True):
        found = score(calibrate.scored(every, FITTED, warm=warm))
        assert found.median_error < 0.085 and found.p90_error < 0.25
        assert found.right / found.pairs > 0.97 and found.worst_regret < 1.7


@pytest.mark.second_tier
def test_a_fit_starts_where_the_constants_are_and_finds_nothing_better() -> None:
    every = calibrate.every_point()[::7]
    pairs = calibrate._pairs(every)
    before = calibrate._cost(calibrate._errors(every, pairs, FITTED))
    found = calibrate.fit(every)
    after = calibrate._cost(calibrate._errors(every, pairs, found))
    assert 0.7 * before < after < before
    assert 1 <= found.overlap <= 8 and found.phases <= 1


def test_counters_on_file_are_what_the_engine_counts() -> None:
    points = calibrate.points()
    wanted = [
        p.key
        for p in points
        if p.key["rows"] == 16 and p.key["launcher"] in ("rms_vec", "silu_flat", "softmax")
    ]
    on_file = {p.key["launcher"]: p.reports for p in points if p.key in wanted}
    counted = {
        row["launcher"]: tuple(calibrate.read_report(r) for r in row["reports"])
        for row in calibrate.count(wanted)
    }
    for launcher, reports in counted.items():
        known = [as_on_file(r.counters) for r in reports]
        assert known == [r.counters for r in on_file[launcher]]
    assert len(counted) == 3
