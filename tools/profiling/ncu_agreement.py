"""Compares the judge's times with Nsight Compute's durations: when is a time implausible?

The judge divides the time of a long CUDA-graph replay, measured by events in the candidate's
process, by its launches. Nsight Compute reads the GPU's own timestamps around every launch, in
another process. Its durations include the cost of a single launch, which replays hide, so they are
longer for small kernels and never much shorter: only a judged time far below them is suspicious.
Measured on an H200 over 172 durations of six kernels on 43 cases (docs/research/measurements.md):
Nsight Compute's were at most 1.31 us above the judge's, and where kernels take 20 us or more, at
most 1 %.
"""

from __future__ import annotations

from collections.abc import Iterable

from astra_chat.tools.types import AnyTime, MeasuredTime

LAUNCH_US = 1.5
"""What a launch may cost by itself that a replay hides; the baseline's own where that is more."""
MIN_SHARE = 0.85
"""Least share of Nsight Compute's duration without launch costs: a judged time below it is not
believed."""


def doubt(time: MeasuredTime) -> str:
    """Why a judged time cannot be, by Nsight Compute's; empty where it can."""
    profiled, base = time.profiled_us or 0.0, time.baseline_profiled_us or 0.0
    own = (base - time.baseline_us) / max(1, time.baseline_launches)
    least = MIN_SHARE * (profiled - time.launches * max(LAUNCH_US, own))
    if time.median_us >= least:
        return ""
    return (
        f"the judge timed {time.median_us:.2f} us, but Nsight Compute measured {profiled:.2f} us"
        " for"
        f" {time.launches} launches: less than {least:.2f} us is impossible"
    )


def compared(times: Iterable[AnyTime]) -> list[tuple[MeasuredTime, float]]:
    """Times that Nsight Compute looked at, each with its duration in us."""
    measured = (time for time in times if isinstance(time, MeasuredTime))
    return [(time, time.profiled_us) for time in measured if time.profiled_us is not None]


def agreement(times: Iterable[AnyTime]) -> list[str]:
    """The two clocks side by side, a sentence for each case that was looked at."""
    return [
        f"{time.case.label}: judged {time.median_us:.2f} us, {time.median_us / us:.2f} of Nsight"
        f" Compute's {us:.2f} us; baseline {time.baseline_us:.2f} of {base_us:.2f} us"
        for time, us in compared(times)
        if (base_us := time.baseline_profiled_us) is not None
    ]


def in_short(times: Iterable[AnyTime]) -> str:
    """The shares of the judged times in Nsight Compute's durations, as text."""
    shares = " and ".join(f"{time.median_us / us:.2f}" for time, us in compared(times))
    return f"{shares} of Nsight Compute's durations"
