"""The steps of one evaluation, with their times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from astra_chat.tools.entropy import NO_SEED, Seed
from astra_chat.tools.evaluation import CheckRecord, Evidence, Step
from astra_chat.tools.types import StepName


class Steps:
    """What was done, from which seed, and how long it took."""

    def __init__(self, seed: Seed = NO_SEED) -> None:
        self.seed = seed
        self._steps: list[Step] = []
        self.record: CheckRecord | None = None
        self.evidence: Evidence | None = None

    @contextmanager
    def step(self, name: StepName) -> Iterator[None]:
        start = time.monotonic()
        yield
        self._steps.append(Step(name=name, seconds=time.monotonic() - start))

    def note(self, text: str) -> None:
        self._steps[-1] = self._steps[-1].model_copy(update={"note": text})

    def done(self) -> tuple[Step, ...]:
        return tuple(self._steps)
