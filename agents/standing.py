"""How each candidate stands: against its parent, against the best before it, and which is kept.

The rule for ties: of two candidates whose difference is inside the resolution, the one with the
higher ratio is kept, of equals the earlier. Any other stays reachable as the parent of a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from astra_chat.agents.rounds import Attempt, Round
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.report.results_text import OF_VERDICT
from astra_chat.tools.timing.best import best_of
from astra_chat.tools.timing.comparison import Comparison, compared
from astra_chat.tools.types import Timed


@dataclass(frozen=True)
class Standing:
    """A timed candidate of a round."""

    round: int
    attempt: Attempt
    timed: Timed
    over_parent: Comparison | None
    """The candidate beside its parent; None: the parent was not timed."""
    over_best: Comparison | None
    """The candidate beside the best before it; None: there was none."""
    kept: bool
    """It is the best from here on."""

    @property
    def text(self) -> str:
        parts = [OF_VERDICT[self.timed.verdict]]
        if self.over_parent is not None:
            parts.append(f"{_with(self.over_parent)} its parent")
        if self.over_best == "tie":
            new = "but its ratio is higher, so it is the new best"
            kept = new if self.kept else "whose ratio is higher"
            parts.append(f"tie with the best, {kept}")
        elif self.kept:
            parts.append("new best, kept")
        elif self.over_best is not None:
            parts.append("slower than the best, discarded")
        return "; ".join(parts)

    @property
    def gained(self) -> bool:
        """Whether it is the best, and that is no tie."""
        return self.kept and self.over_best != "tie"

    @property
    def tie_by_estimate(self) -> bool:
        """Whether it ties by estimate with the best, or with the baseline where there is no
        best."""
        tie = self.over_best or self.timed.verdict
        return self.timed.basis == "estimated" and tie == "tie"


def standings(rounds: Sequence[Round]) -> Iterator[Standing]:
    """Yields the standing of every timed candidate, in order."""
    best: Timed | None = None
    known = list[Timed]()
    for one in rounds:
        parent = _timed(one.parent)
        for attempt in one.attempts:
            timed = _timed(attempt.evaluation)
            if timed is None:
                continue
            counts = attempt.rejected is None and attempt.passed
            counts &= timed.verdict == "accepted" or attempt.leads
            known += [timed] if counts else []
            place = best_of(known)
            kept = counts and place == len(known) - 1
            yield Standing(
                one.number,
                attempt,
                timed,
                over_parent=compared(timed, parent) if parent else None,
                over_best=compared(timed, best) if best else None,
                kept=kept,
            )
            best = known[place] if place is not None else None


def rounds_without_gain(rounds: Sequence[Round]) -> int:
    """Number of last rounds in a row without a gain, as --patience counts them.

    A measured tie with the best is no gain. A tie by estimate does not count: a GPU might tell the
    two apart.
    """
    by_round: dict[int, list[Standing]] = {}
    for one in standings(rounds):
        by_round.setdefault(one.round, []).append(one)
    count = 0
    for last in reversed(rounds):
        stands = by_round.get(last.number, [])
        if any(one.gained for one in stands):
            break
        count += not any(one.tie_by_estimate for one in stands)
    return count


def rounds_below_resolution(rounds: Sequence[Round]) -> int:
    """Number of last rounds in a row whose candidates were timed and gained nothing that can be
    resolved: measured or estimated ties, and slower ones."""
    gained: dict[int, bool] = {}
    for one in standings(rounds):
        gained[one.round] = gained.get(one.round, False) or one.gained
    count = 0
    for last in reversed([gained[one.number] for one in rounds if one.number in gained]):
        if last:
            break
        count += 1
    return count


def _timed(evaluation: Evaluation | None) -> Timed | None:
    outcome = evaluation.outcome if evaluation else None
    return outcome if isinstance(outcome, Timed) else None


def _with(word: Comparison) -> str:
    return "tie with" if word == "tie" else f"{word} than"
