"""The baseline's bugs, and those of a candidate beside it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from astra_chat.tools.entropy import Entropy
from astra_chat.tools.mutation import mutant_runs
from astra_chat.tools.mutation.scores import CaseScore, CaseScores
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, candidate_id
from tests.chat_samples import CASE, SCALAR, VECTOR, task, task_folder

__all__ = ["task", "task_folder"]


class OneBug:
    """A scorer whose only bug is named after its source."""

    made: list[str] = []  # noqa: RUF012

    def __init__(self, task: Task, oracle: Oracle, source: str, *rest: object) -> None:
        self.made.append(source)
        self._bug = f"bug of {candidate_id(source)}"

    def score(self, cases: Sequence[Case]) -> CaseScores:
        scores = tuple(CaseScore(case=case, kills=(self._bug,)) for case in cases)
        return CaseScores(asked=3, mutants=(self._bug,), own=(), cases=scores)


def test_a_candidates_bugs_count_beside_the_baselines(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutant_runs, "Scorer", OneBug)
    oracle = Oracle(task)
    both = mutant_runs.SeededSources(task, oracle, Stop(), Entropy(), lambda *_: None)
    alone = both.score([CASE], 3, SCALAR)
    assert alone.mutants == (f"bug of {candidate_id(SCALAR)}",) and alone.also == ""
    assert both.score([CASE], 3, SCALAR, SCALAR) == alone
    name = candidate_id(VECTOR)
    scores = both.score([CASE], 3, SCALAR, VECTOR)
    assert scores.also == name and scores.mutants == (*alone.mutants, f"{name}: bug of {name}")
    assert OneBug.made == [SCALAR, VECTOR], "each source is built once"
    oracle.close()
