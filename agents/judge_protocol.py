"""The judge as a run uses it: the real one, or one with a recording or a budget around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Case


class JudgeProtocol(Protocol):
    """The methods of tools.tuning.tuning_judge.TuningJudge that the executor calls."""

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport: ...
    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation: ...
    def score(self, cases: Sequence[Case], mutants: int, also: str = "") -> CaseScores: ...
    def tune(self, source: str, points: int, measured: int) -> Tuning: ...
    def cancel(self) -> None: ...
