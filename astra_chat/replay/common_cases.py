"""Two timings of one candidate compared like with like: on the cases that both timed, with the same
weights. A run on a GPU times more cases than one on the virtual GPU does."""

from __future__ import annotations

from collections.abc import Sequence

from astra_chat.tools.timing.verdict import judge_times
from astra_chat.tools.types import AnyTime, Outcome, Timed


def timed_cases(outcome: Outcome) -> dict[str, AnyTime]:
    """Timed cases by their labels; their seeds may differ."""
    return {one.case.label: one for one in outcome.cases} if isinstance(outcome, Timed) else {}


def in_common(then: Outcome, now: Outcome) -> tuple[str, ...]:
    """Labels of the cases that both timed."""
    again = timed_cases(now)
    return tuple(label for label in timed_cases(then) if label in again)


def on_common_cases(then: Outcome, now: Outcome) -> tuple[Outcome, Outcome]:
    """Both as judged on the cases in common, with the weights of `then`; unchanged where one was
    not timed, both timed the same cases, or they have none in common."""
    before, after = timed_cases(then), timed_cases(now)
    if not (isinstance(then, Timed) and isinstance(now, Timed)) or before.keys() == after.keys():
        return then, now
    labels = in_common(then, now)
    if not labels:
        return then, now
    weights = {label: before[label].weight for label in labels}
    return (
        _judged_on(then, [before[label] for label in labels]),
        _judged_on(
            now,
            [after[label].model_copy(update={"weight": weights[label]}) for label in labels],
        ),
    )


def _judged_on(timed: Timed, cases: Sequence[AnyTime]) -> Timed:
    """Returns a timing with the cases given alone, judged by today's rule for verdicts."""
    ratio, verdict, why = judge_times(cases)
    changes = {"cases": tuple(cases), "ratio": ratio, "verdict": verdict, "why": why}
    return timed.model_copy(update=changes)
