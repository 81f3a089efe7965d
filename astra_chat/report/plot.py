"""Where the marks of a plot stand: the best ratio by round, as an SVG that plot.html draws.

No plotting library: a page without scripts needs the coordinates alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from astra_chat.transcript.summary import RunSummary, Speed

WIDTH, HEIGHT = 760, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 14, 44
"""Margins; all lengths are in units of the SVG's own."""
MAX_TICKS = 12
STEPS = (1, 2, 5, 10)


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Mark:
    """A point with its interval."""

    x: float
    y: float
    low: float
    """Lower end of the interval: the larger coordinate."""
    high: float
    kind: str
    """best, confirmed, or the verdict on a candidate."""
    words: str


@dataclass(frozen=True)
class Plot:
    """All coordinates grow to the right and down."""

    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float
    rounds: tuple[Tick, ...]
    ratios: tuple[Tick, ...]
    one: float
    """Height of the baseline."""
    line: str
    """Points of the steps from best to best."""
    best: tuple[Mark, ...]
    tried: tuple[Mark, ...]
    failed: tuple[Mark, ...]


def with_interval(speed: Speed) -> str:
    """ "1.90x (1.71 to 2.09)"."""
    return f"{speed.ratio:.2f}x ({speed.low:.2f} to {speed.high:.2f})"


def plot(summary: RunSummary) -> Plot | None:
    """None for a run without a round."""
    rounds = summary.rounds
    if not rounds:
        return None
    tried = [(r.number, a) for r in rounds for a in r.attempts]
    timed = [(number, a.verdict or "", a.speed) for number, a in tried if a.speed]
    shown = [one.best for one in rounds if one.best] + [speed for *_, speed in timed]
    if (last := _confirmed(summary)) is not None:
        shown.append(last)
    ends = [end for speed in shown for end in (speed.low, speed.high, speed.ratio)]
    steps = _ticks(min([1.0, *ends]), max([1.05, *ends]))
    frame = _Frame(len(rounds), steps[0], steps[-1])
    return Plot(
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=WIDTH - RIGHT,
        top=TOP,
        bottom=HEIGHT - BOTTOM,
        rounds=tuple(Tick(frame.x(n), str(n)) for n in _rounds(len(rounds))),
        ratios=tuple(Tick(frame.y(ratio), f"{ratio:g}x") for ratio in steps),
        one=frame.y(1.0),
        line=" ".join(f"{x:.1f},{y:.1f}" for x, y in _line(summary, frame)),
        best=tuple(_best(summary, frame)),
        tried=tuple(
            frame.mark(
                number,
                speed,
                word,
                f"round {number}, {speed.candidate}: {word} {with_interval(speed)}",
            )
            for number, word, speed in timed
        ),
        failed=tuple(
            frame.failure(number, f"round {number}, {a.candidate}: {a.verdict}")
            for number, a in tried
            if a.failed
        ),
    )


class _Frame:
    """From rounds and ratios to coordinates; a confirmed figure stands half a round further."""

    def __init__(self, rounds: int, low: float, high: float) -> None:
        self._rounds, self._low, self._high = rounds + 0.75, low, high

    def x(self, number: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * number / self._rounds

    def y(self, ratio: float) -> float:
        share = (ratio - self._low) / (self._high - self._low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    def mark(self, number: float, speed: Speed, kind: str, words: str) -> Mark:
        at = self.x(number), self.y(speed.ratio)
        return Mark(*at, self.y(speed.low), self.y(speed.high), kind, words)

    def failure(self, number: int, words: str) -> Mark:
        """On the axis of the rounds."""
        bottom = HEIGHT - BOTTOM
        return Mark(self.x(number), bottom, bottom, bottom, "failed", words)


def _confirmed(summary: RunSummary) -> Speed | None:
    """The winner on fresh seeds, after the last round."""
    return summary.best if summary.best and summary.best.confirmed else None


def _best(summary: RunSummary, frame: _Frame) -> Iterator[Mark]:
    for one in summary.rounds:
        if (best := one.best) is not None:
            words = f"best after round {one.number}, {best.candidate}: {with_interval(best)}"
            yield frame.mark(one.number, best, "best", words)
    if (last := _confirmed(summary)) is not None:
        words = f"on fresh seeds, {last.candidate}: {with_interval(last)}"
        yield frame.mark(len(summary.rounds) + 0.5, last, "confirmed", words)


def _line(summary: RunSummary, frame: _Frame) -> Iterator[tuple[float, float]]:
    """The baseline up to the first gain, then a step at each."""
    ratio = 1.0
    yield frame.x(0), frame.y(ratio)
    for one in summary.rounds:
        if one.best is not None:
            yield frame.x(one.number), frame.y(ratio)
            ratio = one.best.ratio
            yield frame.x(one.number), frame.y(ratio)
    yield frame.x(len(summary.rounds)), frame.y(ratio)


def _rounds(most: int) -> list[int]:
    """0 and further rounds, few enough to be read."""
    step = _step(most / MAX_TICKS)
    return list(range(0, most + 1, max(1, math.ceil(step))))


def _ticks(low: float, high: float) -> list[float]:
    """Round figures, the first at `low` or below it, the last at `high` or above."""
    step = _step((high - low) / (MAX_TICKS / 2))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 10) for n in range(first, last + 1)]


def _step(least: float) -> float:
    """The least of 1, 2 or 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(n * power for n in STEPS if n * power >= least * (1 - 1e-9))
