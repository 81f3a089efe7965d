"""Times of an extension by turns with the module's ways, as rows and as a measured time.

Both processes time with the same loop (walled/inside/timed.py): between two events, the L2 flushed
before. In a replay's time the launch of the graph is included, on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from astra_chat.tools.timing.gpu_samples import below_limit, interval
from astra_chat.tools.timing.module_times import BaselineName, ModuleTime, PairTimes
from astra_chat.tools.types import Case, MeasuredTime

BURST_RATIO, BURST_US = 1.5, 15.0
"""Replays one after the other may take so much longer, by our clock, than the events say, and so
many microseconds for their launches."""
GRAPH = " graph"
NO_GRAPH = "it cannot be captured into a CUDA graph"


@dataclass(frozen=True)
class TimedTurns:
    """What our process measured, and what the untrusted one reported, on one case."""

    found: Mapping[str, Any]

    @property
    def us(self) -> Mapping[str, list[float]]:
        """Medians of each turn, in microseconds, by way."""
        found: Mapping[str, list[float]] = self.found.get("us", {})
        return found

    @property
    def candidate_us(self) -> float:
        """The time of a replay of the extension; of a call of it where there are no graphs."""
        return median(self.us.get(f"candidate{GRAPH}") or self.us["candidate"])

    def implausible(self, floor: float) -> str:
        """Why the reported times cannot be; "" where they can. `floor`: the case's physical limit
        in microseconds."""
        if why := below_limit(self.candidate_us, floor):
            return why
        burst = self.found["burst_us"]
        if burst > BURST_RATIO * self.candidate_us + BURST_US:
            return (
                f"its process reports {self.candidate_us:.1f} us for a replay, but consecutive"
                f" replays took {burst:.1f} us each according to the judge's clock"
            )
        return ""

    def rows(self, case: Case, compilations: int) -> list[ModuleTime]:
        """The four baselines on the case."""
        compiled = [f"compile {number + 1}" for number in range(compilations)]
        none = "no compilation was requested (--compilations 0)"
        rows = []
        for ways, names, why in (
            (["eager"], ("eager", "eager, CUDA graph"), ""),
            (compiled, ("torch.compile", "torch.compile, CUDA graph"), none),
        ):
            said = [self.found["not_run"][way] for way in ways if way in self.found["not_run"]]
            for name, kind in zip(names, ("", GRAPH), strict=True):
                rows.append(self._row(case, name, [f"{way}{kind}" for way in ways], said or [why]))
        return rows

    def _row(
        self, case: Case, name: BaselineName | str, ways: list[str], why: list[str]
    ) -> ModuleTime:
        """The fastest of these ways beside the extension."""
        medians = {way: median(self.us[way]) for way in ways if self.us.get(way)}
        own = f"candidate{GRAPH}" if name.endswith("graph") else "candidate"
        if not medians or not self.us.get(own):
            return ModuleTime.model_validate(
                {"baseline": name, "case": case, "not_run": why[0] or NO_GRAPH}
            )
        best = min(medians, key=lambda way: medians[way])
        low, middle, high = self._ratio(best, own)
        times = PairTimes(
            us=medians[best],
            candidate_us=median(self.us[own]),
            ratio=math.exp(middle),
            ratio_low=math.exp(low),
            ratio_high=math.exp(high),
        )
        took = tuple(medians.values()) if name.startswith("torch") else ()
        return ModuleTime.model_validate(
            {"baseline": name, "case": case, "times": times, "compilations_us": took}
        )

    def _ratio(self, baseline: str, candidate: str) -> tuple[float, float, float]:
        """Low, median and high of the logarithm of baseline over candidate, paired by turn."""
        pairs = zip(self.us[baseline], self.us[candidate], strict=True)
        return interval([math.log(a / b) for a, b in pairs])

    def measured(self, beside: MeasuredTime, note: str) -> MeasuredTime:
        """The extension over the task's baseline, by way of eager, which both were timed with.

        Args:
            beside: the baseline as a candidate, with eager as its baseline.
            note: what is said of the case.
        """
        graphs = all(self.us.get(f"{name}{GRAPH}") for name in ("eager", "candidate"))
        kind = GRAPH if graphs else ""
        low, middle, high = self._ratio(f"eager{kind}", f"candidate{kind}")
        ratio = math.exp(middle) / beside.ratio
        wide = [
            math.log(beside.ratio / beside.ratio_low),
            math.log(beside.ratio_high / beside.ratio),
        ]
        own = median(self.us[f"candidate{kind}"])
        event = median(self.us["candidate"])
        return beside.model_copy(
            update={
                "baseline_us": own * ratio,
                "median_us": own,
                "ratio": ratio,
                "ratio_low": ratio * math.exp(-math.hypot(middle - low, wide[1])),
                "ratio_high": ratio * math.exp(math.hypot(high - middle, wide[0])),
                "percent_of_limit": 100 * beside.limit_us / own,
                "baseline_event_us": beside.event_us,
                "event_us": event,
                "note": "; ".join(filter(None, [beside.note, note])),
                "baseline_warm_us": None,
                "warm_us": None,
                "raw": "",
            }
        )
