"""Times of a kernel over several GPUs: measured by turns with the baseline, or estimated."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from astra_chat.tools.plan.model import KernelNode
from astra_chat.tools.profiling import metrics as m
from astra_chat.tools.profiling.counts import counter_metrics, source_lines
from astra_chat.tools.profiling.profile import unprofiled
from astra_chat.tools.ranks.checks import BASELINE, CANDIDATE
from astra_chat.tools.ranks.plans import Planned
from astra_chat.tools.ranks.signals import rounds
from astra_chat.tools.ranks.taxes import Taxes, taxed, taxes_of
from astra_chat.tools.run.rank_messages import Counted
from astra_chat.tools.task.folder import Task
from astra_chat.tools.timing.gpu_samples import contract_limit_us, interval
from astra_chat.tools.types import Case, Device, EstimatedTime, MeasuredTime, Profile, Value
from astra_chat.tools.virtual_gpu.adapter import Estimate, ratio_interval, reachable_us
from astra_vgpu.ground.gpu_specs import spec

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
