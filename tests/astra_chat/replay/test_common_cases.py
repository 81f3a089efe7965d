"""Like with like: what both sides timed, with the same weights, by one rule."""

from __future__ import annotations

import io

import pytest

from astra_chat.display.console import console
from astra_chat.replay.rejudge import (
    Rejudged,
    in_common,
    on_common_cases,
    rejudged_document,
    rejudged_text,
)
from astra_chat.tools.types import AnyTime, Case, Device, MeasuredTime, Timed
from tests.chat_samples import CASE, DEVICE, WRONG_OUTCOME, timed
from tests.time_samples import measured_time

GPU = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")


def case(rows: int, ratio: float, weight: float = 1.0, seed: int = 0) -> MeasuredTime:
    return measured_time(
        Case(dims={"rows": rows, "d": 64}, dtype="float32", seed=seed),
        ratio,
        weight=weight,
        baseline_us=10.0,
        median_us=10.0 / ratio,
        ratio_low=ratio * 0.99,
        ratio_high=ratio * 1.01,
        percent_of_limit=10.0 * ratio,
        baseline_event_us=20.0,
        event_us=20.0,
    )


def measured(*cases: MeasuredTime, verdict: str = "tie", ratio: float = 1.0) -> Timed:
    return timed(1.0).model_copy(update={"cases": tuple(cases), "verdict": verdict, "ratio": ratio})


def estimated(*cases: tuple[int, float], weight: float = 1.0) -> Timed:
    one = timed(1.5).cases[0]
    times: list[AnyTime] = [
        one.model_copy(
            update={
                "case": CASE.model_copy(update={"dims": {"rows": rows, "d": 64}, "seed": 7}),
                "ratio": ratio,
                "ratio_low": ratio * 0.9,
                "ratio_high": ratio * 1.1,
                "weight": weight,
            }
        )
        for rows, ratio in cases
    ]
    return timed(1.5).model_copy(update={"cases": tuple(times)})


def rejudged(then: Timed, now: Timed) -> Rejudged:
    return Rejudged(
        candidate="a" * 12, confirms=False, then_device=GPU, then=then, now_device=DEVICE, now=now
    )


FIFTEEN = measured(case(1, 1.3), case(2, 1.4), *(case(rows, 0.98) for rows in range(3, 16)))
"""A tie over all its cases, faster on the first two."""


def test_a_tie_over_many_cases_beside_a_gain_on_a_few() -> None:
    """Seen in practice: "tie" measured on 15 cases beside "accepted" estimated on 5."""
    one = rejudged(FIFTEEN, estimated((1, 1.35), (2, 1.45)))
    then, now = one.compared
    assert isinstance(then, Timed) and isinstance(now, Timed)
    assert (then.verdict, now.verdict) == ("accepted", "accepted") and one.agrees and one.cut
    assert then.ratio == pytest.approx((1.3 * 1.4) ** 0.5)
    assert len(one.then.cases) == 15, "what was recorded stays"  # type: ignore[union-attr]


def test_weights_are_those_of_then() -> None:
    then = measured(case(1, 1.2, weight=3.0), case(2, 2.0), case(3, 1.0))
    _, now = on_common_cases(then, estimated((1, 1.2), (2, 2.0), weight=5.0))
    assert isinstance(now, Timed) and [one.weight for one in now.cases] == [3.0, 1.0]
    assert now.ratio == pytest.approx((1.2**3 * 2.0) ** 0.25)


def test_the_same_cases_are_left_as_they_are() -> None:
    then, now = measured(case(1, 1.3)), estimated((1, 1.0))
    assert on_common_cases(then, now) == (then, now), "seeds may differ"
    assert on_common_cases(then, WRONG_OUTCOME) == (then, WRONG_OUTCOME)
    assert in_common(then, WRONG_OUTCOME) == ()


def test_nothing_in_common_is_no_agreement() -> None:
    one = rejudged(measured(case(1, 1.3), verdict="accepted"), estimated((2, 1.3)))
    assert one.differs == "cases" and not one.agrees and not one.cut


def test_what_is_said() -> None:
    one = rejudged(FIFTEEN, estimated((1, 1.35), (2, 1.45)))
    out = io.StringIO()
    console(out).print(rejudged_text([one]), soft_wrap=True)
    said = " ".join(out.getvalue().split())
    assert "timed 15 cases then, 2 cases now; verdicts and ratios cover the 2 in common:" in said
    assert "in common: 1x64 float32, 2x64 float32" in said and "accepted 1.35x" in said
    document = rejudged_document(one)
    assert len(document["then_cases"]) == 15 and len(document["now_cases"]) == 2  # type: ignore[arg-type]
    assert document["compared"]["then"]["verdict"] == "accepted"  # type: ignore[index]
    assert document["differs"] == "" and document["agrees"] is True
