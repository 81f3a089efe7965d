"""A time limit that a candidate exceeded on a GPU: its own fault, or an overloaded machine's?

Limits are many times what a step takes. But a machine with too many processes on it is as many
times slower, and there a correct kernel times out. So the baseline's check is timed beside it.
"""

from __future__ import annotations

from collections.abc import Callable

from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.types import TimedOut
from astra_vgpu.ground.errors import AstraError

SHARE = 0.5
"""The machine is overloaded where the baseline's check takes more than this share of the limit."""


def unhurried(
    first: Evaluation, check_baseline: Callable[[], Evaluation], again: Callable[[], Evaluation]
) -> Evaluation:
    """`first`; or `again`, with a note that says so, where it timed out on an overloaded machine.

    Raises AstraError where the candidate times out twice and the baseline does, too: nothing can be
    judged there.
    """
    late = first.outcome
    if not isinstance(late, TimedOut):
        return first
    baseline = check_baseline()
    took_s = sum(step.seconds - step.waited_s for step in baseline.steps if step.name == "check")
    out_of_time = isinstance(baseline.outcome, TimedOut)
    if took_s < SHARE * late.limit_s and not out_of_time:
        return first
    second = again()
    if isinstance(second.outcome, TimedOut) and out_of_time:
        raise AstraError(
            f"the step '{late.step}' exceeded its limit of {late.limit_s:.0f} s twice, and the"
            " baseline's own check timed out as well: this machine is overloaded; judge the kernel"
            " again when less runs on it"
        )
    return _noted(second, f"judged again: '{late.step}' exceeded {late.limit_s:.0f} s before")


def _noted(found: Evaluation, words: str) -> Evaluation:
    """With a note at its first step."""
    head, *rest = found.steps
    note = f"{head.note}; {words}" if head.note else words
    return found.model_copy(update={"steps": (head.model_copy(update={"note": note}), *rest)})
