"""Tiers of baseline."""

from __future__ import annotations

import pytest

from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.tiers import TIER_FILES, baseline_source
from astra_vgpu.ground.errors import BadInput


def test_each_tier_is_a_file_of_the_task() -> None:
    task = find_task("silu_and_mul")
    sources = {tier: baseline_source(task, tier) for tier in TIER_FILES}
    assert len(set(sources.values())) == len(TIER_FILES)
    assert all(task.entry in source for source in sources.values())


def test_a_missing_tier_is_named() -> None:
    task = find_task("silu_and_mul")
    with pytest.raises(BadInput, match="no paper baseline"):
        baseline_source(task.model_copy(update={"folder": task.folder / "script"}), "paper")
