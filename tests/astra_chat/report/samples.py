"""Small runs for tests of the report."""

from __future__ import annotations

from astra_chat.tools.types import EstimatedTime, MeasuredTime
from astra_chat.transcript.summary import AttemptSummary, RoundSummary, RunSummary, Speed, Timing
from tests.chat_samples import CASE


def speed(number: int, ratio: float) -> Speed:
    return Speed(candidate=f"{number:012x}", ratio=ratio, low=ratio * 0.9, high=ratio * 1.1)


def attempt(verdict: str, made: Speed | None) -> AttemptSummary:
    return AttemptSummary(
        speaker="coder",
        candidate=made.candidate if made else "f" * 12,
        verdict=verdict,
        words="",
        ratio=made.ratio if made else None,
        speed=made,
        failed=made is None,
    )


def a_round(number: int, best: Speed | None, *attempts: AttemptSummary) -> RoundSummary:
    return RoundSummary(
        number=number, title="A $plan$ <b>", predicted_ratio=1.1, attempts=attempts, best=best
    )


def with_rounds(summary: RunSummary, *rounds: RoundSummary) -> RunSummary:
    return summary.model_copy(update={"rounds": rounds, "best": None})


def measured(baseline_us: float = 4.0, median_us: float = 2.0, **more: object) -> MeasuredTime:
    return MeasuredTime.model_validate(
        {
            "case": CASE,
            "weight": 1.0,
            "baseline_us": baseline_us,
            "median_us": median_us,
            "ratio": baseline_us / median_us,
            "ratio_low": 1.9,
            "ratio_high": 2.1,
            "limit_us": 1.0,
            "percent_of_limit": 50.0,
            "baseline_event_us": 9.0,
            "event_us": 7.0,
            "sm_clock_mhz": 1980,
            **more,
        }
    )


def timing(*cases: MeasuredTime | EstimatedTime) -> Timing:
    return Timing(
        candidate="a" * 12,
        ratio=2.0,
        low=1.9,
        high=2.1,
        confirmed=True,
        basis=cases[0].basis,
        cases=cases,
    )
