"""Tiers of baseline, always named: SGLang's own algorithm, the paper's weaker start."""

from __future__ import annotations

from astra_chat.tools.task.folder import BUILTIN, Task
from astra_vgpu.ground.errors import BadInput

TIER_FILES = {"sglang": "baseline.cu", "paper": "paper.cu"}


def baseline_name(task: str, tier: str) -> str:
    """The baseline as a reader knows it: a tier of a task that comes with Astra, the file of an own
    one."""
    return tier if (BUILTIN / task).is_dir() else TIER_FILES.get(tier, tier)


def baseline_source(task: Task, tier: str) -> str:
    """Source of a tier of baseline. Raises BadInput where the task has none."""
    path = task.folder / TIER_FILES[tier]
    if not path.is_file():
        raise BadInput(f"{task.name} has no {tier} baseline: {path} is missing")
    return path.read_text()
