"""Drawn cases on which candidates of a run failed: every later check of the run has them, too.

Most hidden cases are drawn anew for each check. One that met a fault says nothing of the best
candidate, which may have the same fault and was lucky in its draw: its confirmation has the case.
"""

from __future__ import annotations

from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.types import Case, Crashed, Unsafe, Wrong

MOST = 16
"""The last ones."""


def with_failed(known: tuple[Case, ...], evaluation: Evaluation) -> tuple[Case, ...]:
    """`known`, and the case on which this candidate failed where it was drawn for its check."""
    outcome, check = evaluation.outcome, evaluation.check
    if not isinstance(outcome, Wrong | Unsafe | Crashed) or check is None:
        return known
    if outcome.case in known or outcome.case not in check.hidden:
        return known
    return (*known, outcome.case)[-MOST:]
