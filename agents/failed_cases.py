"""Drawn cases on which candidates of a run failed: every later check of the run has them, too.

Many hidden cases are drawn again for each check, and all of them where a run is resumed in another
process. The best candidate may have the fault that such a case showed in another one, and its own
draw may have missed it: its confirmation has the case.
"""

from __future__ import annotations

from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.types import Case, Crashed, Unsafe, Wrong

MOST = 16
"""The last ones."""


def with_failed(known: tuple[Case, ...], evaluation: Evaluation) -> tuple[Case, ...]:
    """`known`, and the case on which this candidate failed where it was drawn."""
    case = evaluation.check.failed if evaluation.check else None
    if (
        case is None
        or case in known
        or not isinstance(evaluation.outcome, Wrong | Unsafe | Crashed)
    ):
        return known
    return (*known, case)[-MOST:]
