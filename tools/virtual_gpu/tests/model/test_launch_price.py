"""What one more launch in a call costs: the model adds what it says."""

from __future__ import annotations

import pytest

from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.model.estimate import estimate
from astra_vgpu.model.launch_price import second_launch_us
from astra_vgpu.model.ratio_interval import judged
from astra_vgpu.types import Counters, Dim3, Launch, LaunchReport

H200 = spec("h200")


def test_it_is_what_the_model_adds_to_the_fixed_part_of_a_call() -> None:
    touching = Counters(
        global_load_requests=1,
        global_load_sectors=1,
        unique_load_sectors=1,
        block_load_sectors=1,
        critical_path_instructions=9,
        critical_path_cycles=9,
    )
    report = LaunchReport(Launch("k", Dim3(1), Dim3(32), 0, b""), 1, touching)
    one, two = (
        judged(estimate([report] * n, {"k": (16, 0)}, H200, warm=True), n).split["fixed"]
        for n in (1, 2)
    )
    assert two - one == pytest.approx(second_launch_us(H200))
