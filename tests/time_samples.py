"""Times of candidates, for tests: measured, estimated, and a GPU's samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from astra_chat.tools.run.protocol import Block, ClockReading, RawTimes, WarmReplay
from astra_chat.tools.types import Case, EstimatedTime, MeasuredTime

READING = ClockReading(
    sm_clock_mhz=1980,
    memory_clock_mhz=3201,
    temperature_c=41,
    power_w=310,
    throttle_reasons=0,
    throttled=False,
)


def measured_time(case: Case, ratio: float = 2.0, **changes: Any) -> MeasuredTime:
    """Returns a time of 2 us where the baseline takes `ratio` times as long, exactly."""
    events = {"baseline_event_us": 8, "event_us": 6, "sm_clock_mhz": 1980}
    return MeasuredTime.model_validate({**_time(case, ratio), **events, **changes})


def estimated_time(case: Case, ratio: float = 2.0, **changes: Any) -> EstimatedTime:
    """Returns an estimate of 2 us where the baseline takes `ratio` times as long, exactly."""
    return EstimatedTime.model_validate({**_time(case, ratio), "limiter": "dram", **changes})


def _time(case: Case, ratio: float) -> dict[str, Any]:
    return {
        "case": case,
        "weight": 1,
        "baseline_us": 2 * ratio,
        "median_us": 2,
        "ratio": ratio,
        "ratio_low": ratio,
        "ratio_high": ratio,
        "limit_us": 1,
        "percent_of_limit": 50,
    }


def raw_times(blocks: Iterable[Block], **changes: Any) -> RawTimes:
    """Returns what timing on a GPU measured beside these blocks."""
    others = {
        "warm": (WarmReplay(baseline_us=2.0, candidate_us=1.5),) * 5,
        "baseline_event_us": (7.0,),
        "candidate_event_us": (6.0,),
        "spaced": False,
        "event_us": 900.0,
        "host_us": 1000.0,
    }
    return RawTimes.model_validate({"blocks": tuple(blocks), **others, **changes})
