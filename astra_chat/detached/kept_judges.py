"""Judges that a worker keeps from one job to the next: what all evaluations of a session share is
made once, such as the oracle's results and the baseline's errors on the shared cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from astra_chat.detached.jobs import Job, canonical_sha256
from astra_chat.tools.tuning.tuning_judge import TuningJudge

MOST_JUDGES = 2
"""Each keeps its cases' inputs and results in a temporary folder, which can be gigabytes."""
IDLE_S = 120.0
"""Seconds without a job after which a worker keeps none."""
OF_ONE_JOB = {"number", "source", "extra_cases", "fresh_seeds", "tune", "seed"}
"""What may differ between jobs of one judge; of the seed the part that all of a session share is
the same."""


@dataclass
class KeptJudges:
    """The judges of one worker, by what their jobs have in common; the one used last is last."""

    _kept: dict[str, tuple[TuningJudge, ExitStack]] = field(default_factory=dict)

    @contextmanager
    def of(self, job: Job, made: Callable[[ExitStack], TuningJudge]) -> Iterator[TuningJudge]:
        """The judge of this job, from whose seed it draws. `made` makes one and puts what ends with
        it on the stack. One that did not come to an end is not used again."""
        shared = canonical_sha256(
            {**job.model_dump(mode="json", exclude=OF_ONE_JOB), "cases": job.seed.split("-")[0]}
        )
        judge, ended = self._kept.pop(shared, (None, ExitStack()))
        with ended:
            if judge is None:
                while len(self._kept) >= MOST_JUDGES:
                    self._end(next(iter(self._kept)))
                judge = ended.enter_context(made(ended))
            judge.entropy.again(job.seed)
            yield judge
            self._kept[shared] = judge, ended.pop_all()

    def close(self) -> None:
        """End them all."""
        while self._kept:
            self._end(next(iter(self._kept)))

    def _end(self, shared: str) -> None:
        _, ended = self._kept.pop(shared)
        ended.close()
