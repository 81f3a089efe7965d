"""Who is timed beside whom; the timing itself needs a GPU."""

from __future__ import annotations

import pytest

from astra_chat.tools.system.devices import cuda_device, virtual_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import candidate_id
from astra_vgpu.ground.errors import BadInput
from lab.baselines.beside import Beside, Pair, best_side, streaming_side, tier_side
from lab.baselines.evidence import Comparison
from lab.baselines.foreign import Places
from lab.baselines.streaming import VARIANTS

TASK = find_task("silu_and_mul")


def test_an_estimate_compares_no_baselines() -> None:
    with pytest.raises(BadInput, match="--device cuda"):
        Beside(TASK, virtual_device("h200"))


def test_sides_are_the_tasks_own_files() -> None:
    best, paper = best_side(TASK), tier_side(TASK, "paper")
    assert best.source == (TASK.folder / "script/fitted.cu").read_text()
    assert paper.source == (TASK.folder / "paper.cu").read_text()
    assert best.kernel.content == candidate_id(best.source)
    names = {streaming_side(TASK, index).kernel.name for index in range(len(VARIANTS))}
    assert len(names) == len(VARIANTS)


@pytest.mark.gpu
def test_a_baseline_beside_itself_and_a_kernel_that_does_not_build() -> None:
    device = cuda_device(0)
    ours = tier_side(TASK, "sglang")
    broken = type(ours)(ours.kernel, "#error no", TASK)
    with Beside(TASK, device) as beside:
        same: Comparison = beside.compare(Pair(ours, ours, TASK.bench[:1]))
        assert 0.95 < same.cases[0].ratio < 1.05
        failed = beside.compare(Pair(ours, broken, TASK.bench[:1]))
        assert not failed.cases and "does not build" in failed.failure
        assert next(iter(beside.pairs(Places())), None) is not None
