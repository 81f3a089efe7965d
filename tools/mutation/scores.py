"""What a suite of cases is worth: the seeded bugs that each of them notices."""

from __future__ import annotations

from typing import Literal

from astra_chat.tools.types import Case, Value


class CaseScore(Value):
    """One case and the mutants that it kills."""

    case: Case
    kills: tuple[str, ...] = ()
    """Names of mutants."""
    unjudged: str = ""
    """Why nothing can be said about it: it is too large, or the baseline itself fails it."""

    @property
    def kept(self) -> bool:
        """A case that notices no seeded bug at all would hardly notice a real one. One that
        notices only what other cases do stays: it costs little, and kernels have other bugs."""
        return bool(self.kills or self.unjudged)


class CaseScores(Value):
    """The tester's cases beside the task's own, scored by mutation."""

    kind: Literal["scores"] = "scores"
    asked: int
    """Mutants that were to be drawn at most."""
    mutants: tuple[str, ...]
    """Names of the mutants that were built and run; those that are no C++ are not among them."""
    own: tuple[str, ...]
    """Of those, what the task's own check cases kill."""
    cases: tuple[CaseScore, ...]

    @property
    def lived(self) -> tuple[str, ...]:
        """Mutants that the task's own cases let live."""
        return tuple(name for name in self.mutants if name not in self.own)

    @property
    def new(self) -> tuple[str, ...]:
        """Of those, what the tester's cases kill."""
        killed = {name for case in self.cases for name in case.kills}
        return tuple(name for name in self.lived if name in killed)

    @property
    def survivors(self) -> tuple[str, ...]:
        """Mutants that no case kills: gaps of the suite, or the same program in other words."""
        return tuple(name for name in self.lived if name not in self.new)

    @property
    def dropped(self) -> tuple[Case, ...]:
        """Cases that kill nothing, where there is something to kill."""
        return tuple(score.case for score in self.cases if self.mutants and not score.kept)

    def words(self) -> str:
        """The score in one line."""
        whose = "the task's own cases"
        killed = f"{whose} kill {len(self.own)} of {len(self.mutants)} seeded bugs of the baseline"
        if not self.mutants:
            return "no seeded bug of the baseline could be built: all cases are kept"
        if self.lived:
            killed += f"; the {len(self.cases)} proposed ones kill {len(self.new)} of the"
            killed += f" {len(self.lived)} that those let live"
        count = len(self.dropped)
        return killed + (f"; {count} that kill none are not kept" if count else "")


class SuiteScore(Value):
    """A task's own check cases, scored by mutation."""

    mutants: tuple[str, ...]
    own: tuple[str, ...]
    """Killed by the task's own check cases."""
    drawn: tuple[str, ...]
    """Killed by drawn cases only: what the own cases miss."""

    @property
    def survivors(self) -> tuple[str, ...]:
        """Killed by no case: taken to be the same program in other words."""
        known = {*self.own, *self.drawn}
        return tuple(name for name in self.mutants if name not in known)

    def lines(self) -> list[str]:
        return [
            f"seeded bugs: the check cases kill {len(self.own)} of {len(self.mutants)}",
            *(f"  only drawn cases notice: {name}" for name in self.drawn),
            *(f"  no case notices, perhaps no bug: {name}" for name in self.survivors),
        ]
