"""What successive halving did, as values; a transcript holds them."""

from __future__ import annotations

from astra_chat.tools.types import Seconds, Value
from astra_chat.tools.wording import counted


class Dropped(Value):
    """A candidate that was dropped."""

    candidate: str
    ratio: float | None
    """Speedup over the baseline on the cases so far; None if it failed."""
    failed: str = ""
    """Kind of the outcome that ended it."""


class HalvingRound(Value):
    """One round of halving."""

    entered: int
    """Candidates that entered the round."""
    cases: int
    """Cases on which candidates are compared, including those of earlier rounds."""
    timings: int
    """Number of timings that this round added, each of one candidate and the baseline on one
    case."""
    seconds: Seconds
    dropped: tuple[Dropped, ...]
    """Candidates that were dropped, best first."""

    @property
    def on(self) -> str:
        """Number of cases in words: "4 cases"."""
        return counted(self.cases, "case")

    @property
    def text(self) -> str:
        """What the round did and cost, as one line."""
        return (
            f"{counted(self.entered, 'candidate')} on {self.on}:"
            f" {counted(self.timings, 'timing')} in {self.seconds:.0f} s,"
            f" {len(self.dropped)} dropped"
        )


class Halving(Value):
    """The result of halving."""

    rounds: tuple[HalvingRound, ...]
    left: tuple[str, ...]
    """Candidates that no round dropped, best first."""

    @property
    def order(self) -> list[str]:
        """All candidates that did not fail: those left, then those that were dropped last."""
        dropped = [one for done in reversed(self.rounds) for one in done.dropped]
        return [*self.left, *(one.candidate for one in dropped if one.ratio is not None)]

    def dropped_at(self, candidate: str) -> str:
        """On how many cases a candidate was dropped and how fast it was, as text; "" of others."""
        for done in self.rounds:
            for one in done.dropped:
                if one.candidate == candidate:
                    how = one.failed or f"{one.ratio:.3f}x"
                    return f"{how} on {done.on}, then dropped"
        return ""

    @property
    def timings(self) -> int:
        return sum(done.timings for done in self.rounds)
