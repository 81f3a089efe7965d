"""Scores estimates against measured times: errors, pairs in the right order, regret."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

CLOSE = 0.10
"""Variants whose measured times are within this share of each other are no pair."""


@dataclass(frozen=True)
class Scored:
    """One point: what was measured and what was estimated, us."""

    group: Hashable
    """Points of one group are variants of one task at one shape."""
    name: str
    measured_us: float
    estimated_us: float

    @property
    def error(self) -> float:
        """Signed error of the estimate, as a share of the measured time."""
        return self.estimated_us / self.measured_us - 1


@dataclass(frozen=True)
class Score:
    points: int
    median_error: float
    p90_error: float
    worst_error: float
    pairs: int
    """Pairs of variants whose measured times are more than CLOSE apart."""
    right: int
    """Pairs whose estimates are in the right order."""
    mean_regret: float
    """Measured time of the variant with the least estimate, over the least measured time: geometric
    mean of all groups."""
    worst_regret: float
    regretted: int
    """Groups whose regret is more than 1.05."""
    groups: int

    def __str__(self) -> str:
        return (
            f"{self.points} points: median error {self.median_error:.1%}, 90 % within"
            f" {self.p90_error:.1%}, worst {self.worst_error:.0%}; pairs in order"
            f" {self.right}/{self.pairs} = {self.right / max(1, self.pairs):.1%}; best named"
            f" in {self.groups - self.regretted}/{self.groups} groups within 5 %, regret"
            f" {self.mean_regret:.2f}x in the mean, {self.worst_regret:.2f}x at worst"
        )


def score(points: Sequence[Scored]) -> Score:
    """Raises ValueError for no points."""
    if not points:
        raise ValueError("nothing to score")
    errors = sorted(abs(p.error) for p in points)
    groups: dict[Hashable, list[Scored]] = defaultdict(list)
    for point in points:
        groups[point.group].append(point)
    pairs = [
        (a.measured_us - b.measured_us) * (a.estimated_us - b.estimated_us) > 0
        for group in groups.values()
        for a, b in itertools.combinations(group, 2)
        if abs(math.log(a.measured_us / b.measured_us)) > math.log(1 + CLOSE)
    ]
    regrets = [_regret(group) for group in groups.values() if len(group) > 1] or [1.0]
    return Score(
        len(errors),
        median(errors),
        errors[int(0.9 * len(errors))],
        errors[-1],
        len(pairs),
        sum(pairs),
        geometric_mean(regrets),
        max(regrets),
        sum(r > 1.05 for r in regrets),
        len(regrets),
    )


def _regret(group: Sequence[Scored]) -> float:
    chosen = min(group, key=lambda p: p.estimated_us)
    return chosen.measured_us / min(p.measured_us for p in group)
