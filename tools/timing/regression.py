"""Is a kernel slower than another? The rule of `gate`, and of `time --fail-if slower`.

A measurement alarms where its interval lies below what noise may do: over all cases, or on single
ones. One alarm in many is chance, and more cases have more of them: what is measured is measured
once more, on fresh inputs, and counts where both alarm. An estimate is the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.timing.intervals import mean_interval
from astra_chat.tools.timing.verdict import NO_REGRESSION
from astra_chat.tools.types import Basis, Timed, Value

ALL_CASES = "all cases"


class Loss(Value):
    """Where a kernel is slower, with the ratio of the last measurement."""

    where: str
    """A case's label, or ALL_CASES: their weighted mean."""
    basis: Basis
    ratio: float
    low: float
    high: float

    @property
    def words(self) -> str:
        interval = f"{self.low:.3f} to {self.high:.3f}"
        return f"{self.where}: {self.basis} {self.ratio:.3f}x, {interval}"


def losses(first: Evaluation, again: Callable[[], Evaluation]) -> tuple[Loss, ...]:
    """Where a timed kernel is slower than the baseline, on its device. `again` measures it once
    more."""
    found = _alarms(first)
    if not found or first.device.kind == "virtual":
        return found
    before = {loss.where for loss in found}
    return tuple(loss for loss in _alarms(again()) if loss.where in before)


def over_all(found: Sequence[Loss]) -> Loss | None:
    """The loss over all cases."""
    return next((loss for loss in found if loss.where == ALL_CASES), None)


def _alarms(evaluation: Evaluation) -> tuple[Loss, ...]:
    timed = evaluation.outcome
    if not isinstance(timed, Timed):
        return ()
    low, high = mean_interval(timed.cases)
    basis = timed.basis
    mean = [Loss(where=ALL_CASES, basis=basis, ratio=timed.ratio, low=low, high=high)]
    least = 1.0 if basis == "estimated" else NO_REGRESSION
    return (
        *(mean if timed.verdict == "slower" else ()),
        *(
            Loss(
                where=one.case.label,
                basis=basis,
                ratio=one.ratio,
                low=one.ratio_low,
                high=one.ratio_high,
            )
            for one in timed.cases
            if one.ratio_high < least
        ),
    )
