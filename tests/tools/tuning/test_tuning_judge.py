"""The executor's tuning with the real judge, on the virtual GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.entropy import Entropy
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.tuning.tuning_judge import TuningJudge
from astra_chat.tools.types import candidate_id
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import REFERENCE, SCALAR, TASK_TOML, VECTOR

SLOW = SCALAR.replace(
    "__global__",
    "constexpr int kBlocks = 1;  // tune: 256\nconstexpr int kThreads = 64;"
    "  // tune: 4096\n__global__",
    1,
).replace("<<<4, 64,", "<<<kBlocks, kThreads,")


@pytest.mark.second_tier
def test_the_point_that_is_faster_is_found_and_failures_are_said(tmp_path: Path) -> None:
    files = {"task.toml": TASK_TOML, "reference.py": REFERENCE, "baseline.cu": SCALAR}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    judge = TuningJudge(
        load_task(tmp_path), pick_device("virtual"), trust=True, entropy=Entropy("7")
    )
    with judge:
        with pytest.raises(BadInput, match="marks no constant for tuning"):
            judge.tune(VECTOR, 8, 16)
        found = judge.tune(SLOW, 8, 16)
    assert found.candidate == candidate_id(SLOW) and found.combinations == 4
    assert found.start == {"kBlocks": 1, "kThreads": 64}
    assert found.best == {"kBlocks": 256, "kThreads": 64} == found.points[0].values
    failed = [point for point in found.points if point.estimated_ratio is None]
    assert {point.values["kThreads"] for point in failed} == {4096}
    assert all(point.failed for point in failed) and len(failed) == 2
    assert found.halving is None and found.measured == 0 and found.seconds > 0
    told = f"2 of them failed ({failed[0].failed}, as kBlocks = "
    assert "kBlocks = 256 (was 1)" in found.words and told in found.words
