"""Times of a kernel over several GPUs: measured by turns with the baseline, or estimated.

What such a kernel pays beside its own work, the three taxes, is estimated by the virtual model.
Terms after "Eliminating Multi-GPU Performance Taxes: A Systems Approach to Efficient Distributed
LLMs" (arXiv 2511.02168): bulk synchrony, data that leaves its place between producer and consumer,
and kernel launches. Constants are estimates, fitted by hand to the times of three kernels on two
H200s (docs/research/ranks.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from astra_chat.tools.plan.model import KernelNode
from astra_chat.tools.profiling import metrics as m
from astra_chat.tools.profiling.profile import counter_metrics, source_lines, unprofiled
from astra_chat.tools.ranks.checks import BASELINE, CANDIDATE
from astra_chat.tools.ranks.plans import Planned
from astra_chat.tools.ranks.signals import rounds
from astra_chat.tools.run.rank_messages import Counted
from astra_chat.tools.task.folder import Task
from astra_chat.tools.timing.gpu_samples import contract_limit_us, interval
from astra_chat.tools.types import Case, Device, EstimatedTime, MeasuredTime, Metric, Profile, Value
from astra_chat.tools.virtual_gpu.adapter import (
    Estimate,
    ratio_interval,
    reachable_us,
    second_launch_us,
)
from astra_vgpu.ground.gpu_specs import GpuSpec, spec

UNPROVEN = 2.0
"""How much farther the ends of an estimated ratio's interval are than those of one GPU, whose model
is validated: taxes are not."""
LOAD_ROUNDS = 1
"""Rounds of loads that no kernel can do without."""
NO_PROFILE = (
    "no counters are read while ranks wait for each other; on the virtual GPU, the"
    " profile has the taxes"
)
BySide = dict[str, tuple[float, ...]]


class Against(Value):
    """How many times as fast as another the candidate is."""

    us: float
    ratio: float
    low: float
    high: float
    """Ends of the 95 % interval of the ratio."""


def against(name: str, by_rank: Sequence[BySide]) -> Against:
    """The candidate beside another side. The slowest rank's time of each sample counts; a round's
    two samples of a side are one."""
    mine, other = (slowest(side, by_rank) for side in (CANDIDATE, name))
    low, middle, high = interval(np.log(other / mine).tolist())
    ratios = {"ratio": math.exp(middle), "low": math.exp(low), "high": math.exp(high)}
    return Against(us=float(np.median(other)), **ratios)


def slowest(name: str, by_rank: Sequence[BySide]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Microseconds a call of a side, by round."""
    times = np.max([us[name] for us in by_rank], axis=0).reshape(-1, 2).mean(axis=1)
    return np.asarray(times, np.float64)


def measured(
    task: Task, device: Device, case: Case, weight: float, by_rank: Sequence[BySide], clock_mhz: int
) -> MeasuredTime:
    """One case of real GPUs."""
    found, mine = against(BASELINE, by_rank), float(np.median(slowest(CANDIDATE, by_rank)))
    limit = contract_limit_us(task, case, device)
    return MeasuredTime(
        case=case,
        weight=weight,
        baseline_us=found.us,
        median_us=mine,
        ratio=found.ratio,
        ratio_low=found.low,
        ratio_high=found.high,
        limit_us=limit,
        percent_of_limit=100 * limit / mine,
        baseline_event_us=found.us,
        event_us=mine,
        sm_clock_mhz=clock_mhz,
        blocks=len(slowest(CANDIDATE, by_rank)),
        note=f"graphs of calls on {len(by_rank)} GPUs, with all ranks starting together and"
        " a warm L2;"
        " the slowest rank counts",
    )


class CountedCase:
    """One case of virtual GPUs, with its taxes."""

    def __init__(
        self, task: Task, device: Device, plans: Planned, at: int, by_rank: Sequence[Counted]
    ) -> None:
        """`at`: the case's place among the plans of a rank."""
        gpu, plan = spec(device.spec), plans.plans[0][at]
        nodes = plan.nodes
        private = sum(arg.bytes_of(plan.case) for arg in task.args if arg.read)
        kernels = [node.kernel for node in nodes if isinstance(node, KernelNode)]
        waits = rounds(plans.build.ptx.read_text(), kernels)
        self._slowest = max(by_rank, key=lambda one: one.report.estimated.us)
        self.taxes: Taxes = taxes_of(
            by_rank, waits=waits, launches=len(nodes), private_bytes=private, spec=gpu
        )
        self.estimate: Estimate = taxed(self._slowest.report.estimated, self.taxes)
        self._device, self._source = device, plans.build.source

    def time(self, task: Task, case: Case, weight: float, baseline: Estimate) -> EstimatedTime:
        """The estimate beside the baseline's."""
        low, ratio, high = ratio_interval(baseline, self.estimate)
        low, high = low / UNPROVEN, high * UNPROVEN
        limit = contract_limit_us(task, case, self._device)
        return EstimatedTime(
            case=case,
            weight=weight,
            baseline_us=baseline.us,
            median_us=self.estimate.us,
            ratio=ratio,
            ratio_low=low,
            ratio_high=high,
            limit_us=limit,
            percent_of_limit=100 * limit / self.estimate.us,
            limiter=self.estimate.limiter,
            note="of the slowest rank, including the taxes for several GPUs",
        )

    def profile(self, task: Task, case: Case) -> Profile:
        """What limits the kernel, with the taxes as metrics."""
        gpu, limit = spec(self._device.spec), contract_limit_us(task, case, self._device)
        floor = reachable_us(task.least_bytes(case), limit, gpu, rounds=LOAD_ROUNDS)
        report = self._slowest.report.model_copy(update={"estimate": self.estimate})
        return Profile(
            basis="estimated",
            case=case,
            metrics=(
                *counter_metrics(report),
                *m.split_metrics(self.estimate.split, floor),
                *self.taxes.metrics(self.estimate.us),
            ),
            bottleneck=self.estimate.limiter,
            why=self.estimate.why,
            limit_us=limit,
            percent_of_limit=100 * limit / self.estimate.us,
            lines=source_lines(self.estimate, self._source),
        )


def measured_profile(time: MeasuredTime) -> Profile:
    """What is said of a case of real GPUs."""
    return unprofiled(time, NO_PROFILE)


ROUND_US = 1.2
"""A signal's way to a peer and the peer's data back, once per wait; an estimate."""
LINK_BYTES_PER_S = 250e9
"""What stores or loads of a kernel reach over NVLink in one direction; an estimate."""
LINK_LATENCY_US = 0.8
"""How much longer a load over a link takes than one of this GPU's memory; an estimate."""


@dataclass(frozen=True)
class Taxes:
    """The taxes of one call, of the rank that pays most."""

    waits: int
    """How often a rank waits for its peers."""
    launches: int
    link_read_bytes: int
    link_written_bytes: int
    own_bytes: int
    private_bytes: int
    """Bytes of arguments that no peer reaches."""
    load_rounds: int
    """Loads of a warp that wait for each other; those over links are taken to be as many of them
    as bytes over links are of all bytes."""
    spec: GpuSpec

    @property
    def barriers_us(self) -> float:
        """Bulk synchrony: ranks wait for each other."""
        return self.waits * ROUND_US

    @property
    def links_us(self) -> float:
        """Locality: bytes over links, and loads over links that wait for each other."""
        moved = max(self.link_read_bytes, self.link_written_bytes) / LINK_BYTES_PER_S * 1e6
        read = self.link_read_bytes + self.own_bytes + self.private_bytes
        share = self.link_read_bytes / max(1, read)
        return moved + share * max(0, self.load_rounds - self.waits) * LINK_LATENCY_US

    @property
    def launches_us(self) -> float:
        """Launches after the first."""
        return max(0, self.launches - 1) * second_launch_us(self.spec)

    def metrics(self, total_us: float) -> tuple[Metric, ...]:
        """The taxes as metrics that a plan can name. `total_us`: the call's time."""
        paid = self.barriers_us + self.links_us + self.launches_us
        rows = (
            (m.TAX_BARRIERS, self.barriers_us, "us", "of the time: ranks wait for each other"),
            (m.TAX_LINKS, self.links_us, "us", "of the time: bytes and dependent loads over links"),
            (m.TAX_LAUNCHES, self.launches_us, "us", "of the time: launches after the first"),
            (m.TAX_SHARE, 100 * paid / total_us, "%", "of the time are taxes for several GPUs"),
            (m.RANK_WAITS, self.waits, "", "waits of a rank for its peers"),
            (
                m.LINK_BYTES,
                self.link_read_bytes + self.link_written_bytes,
                "B",
                "of its peers' memory that a rank reads or writes, counting each byte once",
            ),
            (m.OWN_SHARED_BYTES, self.own_bytes, "B", "of its own shared memory that a rank reads"),
        )
        return tuple(Metric(name=n, value=float(v), unit=u, words=w) for n, v, u, w in rows)

    @property
    def words(self) -> str:
        """The largest tax, in a sentence's part."""
        by_us = {
            f"{self.waits} waits for peers": self.barriers_us,
            "bytes and loads over links": self.links_us,
            f"{self.launches} launches": self.launches_us,
        }
        largest = max(by_us, key=lambda name: by_us[name])
        return f"the largest tax for several GPUs: {largest}, {by_us[largest]:.2f} us"


def taxes_of(
    counted: Sequence[Counted], *, waits: int, launches: int, private_bytes: int, spec: GpuSpec
) -> Taxes:
    """The taxes of one case from what each rank counted."""
    return Taxes(
        waits=waits,
        launches=launches,
        link_read_bytes=max(one.link_read_bytes for one in counted),
        link_written_bytes=max(one.link_written_bytes for one in counted),
        own_bytes=max(one.own_bytes for one in counted),
        private_bytes=private_bytes,
        load_rounds=max(one.report.estimated.load_rounds for one in counted),
        spec=spec,
    )


def taxed(call: Estimate, taxes: Taxes) -> Estimate:
    """One rank's estimate with what it pays for its peers; launches are in it already."""
    waits = call.split.get("waits", 0.0) + taxes.barriers_us
    moved = call.split.get("bytes", 0.0) + taxes.links_us
    more = taxes.barriers_us + taxes.links_us
    terms = {**call.terms, "latency": call.terms.get("latency", 0.0) + more}
    return replace(
        call,
        us=call.us + more,
        terms=terms,
        limiter=max(terms, key=lambda name: terms[name]),
        split={**call.split, "waits": waits, "bytes": moved},
        why=f"{taxes.words}; {call.why}",
    )
