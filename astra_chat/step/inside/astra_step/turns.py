"""Variants of a step, and their blocks of replays, each variant once in a round."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

WITHOUT, AGAIN, ALL, ONLY = "without", "again", "all", "only "
BLOCK_US = 20_000.0
"""About how long a block of replays takes."""
FEWEST, MOST = 5, 200
"""Replays in a block."""


def variants(operators: Sequence[str], alone: bool = True) -> dict[str, list[str]]:
    """The winners of each variant: none, none once more, all, and each alone."""
    found = {WITHOUT: list[str](), AGAIN: list[str](), ALL: list(operators)}
    if alone and len(operators) > 1:
        found |= {f"{ONLY}{name}": [name] for name in operators}
    return found


def replays_in_block(step_us: float) -> int:
    return max(FEWEST, min(MOST, round(BLOCK_US / max(step_us, 1e-3))))


def blocks(
    timed: Mapping[str, Callable[[int], float]], rounds: int, draws: random.Random
) -> dict[str, list[float]]:
    """Microseconds of a replay, for each variant and round. `timed` runs so many replays of a
    variant and returns the mean of one. In each round the order is drawn again."""
    names = list(timed)
    for name in names:  # clocks and caches as in the rounds
        timed[name](FEWEST)
    replays = replays_in_block(timed[names[0]](FEWEST))
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        draws.shuffle(names)
        for name in names:
            found[name].append(timed[name](replays))
    return found
