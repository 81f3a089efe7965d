"""Is a kernel slower: one alarm is measured again, an estimate is not."""

from __future__ import annotations

import pytest

from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.timing.regression import losses, over_all
from astra_chat.tools.types import Timed
from tests.chat_samples import CASE, VECTOR, evaluation, timed
from tests.time_samples import measured_time


def measured(ratio: float, width: float = 0.005) -> Evaluation:
    """An evaluation on a GPU: two cases, the second without a loss."""
    cases = tuple(
        measured_time(
            CASE.model_copy(update={"dims": {"rows": rows, "d": 64}}),
            one,
            baseline_us=2.0,
            median_us=2.0 / one,
            ratio_low=one - width,
            ratio_high=one + width,
            baseline_event_us=2.0,
            event_us=2.0,
            sm_clock_mhz=1000,
        )
        for rows, one in ((4, ratio), (8, 1.0))
    )
    verdict = "slower" if ratio < 0.95 else "tie"
    outcome = timed(ratio, verdict).model_copy(update={"cases": cases})
    found = evaluation(VECTOR, outcome)
    device = found.device.model_copy(update={"kind": "cuda", "name": "NVIDIA H200"})
    return found.model_copy(update={"device": device})


@pytest.mark.parametrize(
    ("first", "second", "where"),
    [
        (1.0, None, []),
        (0.9, 0.9, ["all cases", "4x64 float32"]),
        (0.9, 1.0, []),
        (0.97, 0.97, ["4x64 float32"]),
    ],
)
def test_a_measured_loss_counts_where_both_show_it(
    first: float, second: float | None, where: list[str]
) -> None:
    """Without an alarm nothing is measured again."""
    asked = []

    def again() -> Evaluation:
        asked.append(second)
        assert second is not None
        return measured(second)

    found = losses(measured(first), again)
    assert [loss.where.partition(", ")[0] for loss in found] == where
    assert len(asked) == (second is not None)
    assert (over_all(found) is not None) == ("all cases" in where)


def test_an_estimate_is_the_same_again() -> None:
    slower = evaluation(VECTOR, timed(0.8, "slower"))
    found = losses(slower, lambda: pytest.fail("nothing is measured"))
    assert [loss.where for loss in found] == ["all cases", CASE.label]
    assert "estimated 0.800x" in found[0].words
    assert isinstance(slower.outcome, Timed) and not losses(
        evaluation(VECTOR, timed(1.2)), lambda: slower
    )
