"""Cases scored by seeded bugs of the baseline and of a candidate beside it: new branches have new
bugs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from astra_chat.tools.entropy import Entropy
from astra_chat.tools.mutation.mutant_runs import Scorer
from astra_chat.tools.mutation.scores import CaseScores, together
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, StepName, candidate_id


class SeededSources:
    """The sources of one task that bugs are put into, each with its mutants."""

    def __init__(
        self,
        task: Task,
        oracle: Oracle,
        stop: Stop,
        entropy: Entropy,
        tell: Callable[[StepName, int, int, str], None],
    ) -> None:
        self._task, self._oracle, self._stop = task, oracle, stop
        self._tell, self._entropy = partial(tell, "check"), entropy
        self._scorers: dict[tuple[str, int], Scorer] = {}

    def score(
        self, cases: Sequence[Case], mutants: int, baseline: str, also: str = ""
    ) -> CaseScores:
        """Scores the cases by so many bugs of the baseline, and by as many of another source
        `also`."""
        own = self._scorer(baseline, mutants).score(cases)
        if also in ("", baseline):
            return own
        return together(own, self._scorer(also, mutants).score(cases), candidate_id(also))

    def _scorer(self, source: str, mutants: int) -> Scorer:
        known = self._scorers.get((source, mutants))
        if known is None:
            known = self._scorers[source, mutants] = Scorer(
                self._task, self._oracle, source, self._stop, mutants, self._tell, self._entropy
            )
        return known
