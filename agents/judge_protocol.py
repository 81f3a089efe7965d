"""The judge as a run sees it: the real one, one with a recording, one with a budget, a test's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.types import Case


class JudgeProtocol(Protocol):
    """What the executor needs of tools.judge.Judge."""

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport: ...
    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation: ...
    def score(self, cases: Sequence[Case], mutants: int) -> CaseScores: ...
    def cancel(self) -> None: ...
