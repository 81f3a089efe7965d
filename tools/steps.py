"""The steps of one evaluation, with their times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from astra_chat.tools.entropy import NO_SEED, Seed
from astra_chat.tools.evaluation import Step
from astra_chat.tools.system.gpu_use import GpuClock
from astra_chat.tools.types import StepName


class Steps:
    """What was done, from which seed, and how long it took."""

    def __init__(self, seed: Seed = NO_SEED, gpu: GpuClock | None = None) -> None:
        """`gpu`: the clock of the judge's leases, where it has a real GPU."""
        self.seed, self._gpu = seed, gpu
        self._steps: list[Step] = []

    @contextmanager
    def step(self, name: StepName) -> Iterator[None]:
        start = time.monotonic()
        yield
        seconds = time.monotonic() - start
        waited_s, use = self._gpu.taken() if self._gpu else (0.0, None)
        self._steps.append(Step(name=name, seconds=seconds, waited_s=waited_s, gpu=use))

    def note(self, text: str) -> None:
        self._steps[-1] = self._steps[-1].model_copy(update={"note": text})

    def done(self) -> tuple[Step, ...]:
        return tuple(self._steps)
