"""What timing on a real GPU measured: the time of every replay and event pair, frozen."""

from __future__ import annotations

from statistics import mean

from pydantic import BaseModel, ConfigDict, Field

PairUs = tuple[float, float]
"""Two replays of a block, in order; microseconds a launch."""


class Raw(BaseModel):
    """Raw figures of a runner process; a field that it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ClockReading(Raw):
    """NVML's reading after a block."""

    sm_clock_mhz: int
    memory_clock_mhz: int
    temperature_c: int
    power_w: int
    throttle_reasons: int
    """NVML's bit mask."""
    throttled: bool
    """Whether a reason among them slows the clock for heat or power."""


class Block(Raw):
    """One block of cold replays: ABBA or BAAB, and the baseline's control twice."""

    candidate_first: bool
    baseline: PairUs
    candidate: PairUs
    control: PairUs
    """A second CUDA graph of the baseline: what it gains over the first is noise (A/A)."""
    spent_s: float
    """Seconds since timing of the case began."""
    clock: ClockReading

    @property
    def baseline_us(self) -> float:
        return mean(self.baseline)

    @property
    def candidate_us(self) -> float:
        return mean(self.candidate)

    @property
    def control_us(self) -> float:
        return mean(self.control)


class WarmReplay(Raw):
    """Microseconds a launch with the data in the L2."""

    baseline_us: float
    candidate_us: float


class RawTimes(Raw):
    """All that was measured of baseline and candidate on one case."""

    blocks: tuple[Block, ...] = Field(min_length=1)
    warm: tuple[WarmReplay, ...] = Field(min_length=1)
    baseline_event_us: tuple[float, ...] = Field(min_length=1)
    """Time of each launch of the baseline by an event pair around it, warm-up left out."""
    candidate_event_us: tuple[float, ...] = Field(min_length=1)
    """Time of each launch of the candidate by an event pair around it, warm-up left out."""
    spaced: bool
    """Whether another kernel stood between all launches; its time is subtracted."""
    event_us: float
    """Time by events of the replays that were least late for the host, one of each kind of graph,
    added up, in us. Until November 2026: of all replays."""
    host_us: float
    """Time of the replays of `event_us` by the host's clock."""
    other_processes: int = 0
    """Processes beside the runner that had work on the GPU."""
