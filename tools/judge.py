"""The judge: one candidate in, one evaluation out. Knows of no chat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from astra_chat.tools.tasks import Task
from astra_chat.tools.types import BuildReport, Case, Device, Evaluation, Progress

Tier = Literal["sglang", "paper"]


class Judge:
    """Guards, builds, checks, times and profiles candidates of one task on one device.

    All methods block; call them from a thread of their own and stop them with `cancel`.
    The kernel's faults are values; EnvironmentLack and other exceptions are ours or the machine's.
    """

    def __init__(
        self,
        task: Task,
        device: Device,
        *,
        tier: Tier = "sglang",
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self.task, self.device, self.tier, self.on_progress = task, device, tier, on_progress

    def build(self, source: str) -> BuildReport:
        """Guard and build; executes nothing of the candidate."""
        raise RuntimeError("lands with the build step")

    def evaluate(self, source: str, extra_cases: Sequence[Case] = ()) -> Evaluation:
        """All steps, on the task's check cases and the extra ones; builds come from the cache."""
        raise RuntimeError("lands with the check step")

    def cancel(self) -> None:
        """Stop the running step from another thread; `evaluate` then raises Cancelled."""
