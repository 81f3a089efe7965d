"""Mutation scores: the seeded bugs that each case of a suite detects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from astra_chat.tools.types import Case, Value
from astra_chat.tools.wording import counted

FEW = 6
"""Fewer seeded bugs than these are no more than a spot check."""


class CaseScore(Value):
    """One case and the mutants that it detects."""

    case: Case
    kills: tuple[str, ...] = ()
    """Names of mutants."""
    unjudged: str = ""
    """Why the case has no score: it is too large, or the baseline fails it."""
    refused: bool = Field(default=False, exclude_if=lambda refused: not refused)
    """Whether the baseline fails the case, so that no kernel can be judged on it."""

    @property
    def kept(self) -> bool:
        """Whether the case stays. One that detects no seeded bug would hardly detect a real one.
        One that detects only what other cases do stays: it costs little, and kernels have other
        bugs."""
        return bool(self.kills or self.unjudged) and not self.refused


class CaseScores(Value):
    """Scores of the tester's cases by mutation, compared with the task's own."""

    kind: Literal["scores"] = "scores"
    asked: int
    """Maximum number of mutants per source."""
    mutants: tuple[str, ...]
    """Names of the mutants that were built and run; those that do not compile or do not change any
    result are left out."""
    own: tuple[str, ...]
    """Names of the mutants that the task's own check cases detect."""
    cases: tuple[CaseScore, ...]
    harmless: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Mutants that were left out because they write the same results as their source on many drawn
    cases."""
    also: str = Field(default="", exclude_if=lambda name: not name)
    """The candidate whose seeded bugs are among the mutants, in addition to the baseline's."""

    @property
    def lived(self) -> tuple[str, ...]:
        """Mutants that survive the task's own cases."""
        return tuple(name for name in self.mutants if name not in self.own)

    @property
    def new(self) -> tuple[str, ...]:
        """Names of the mutants that survive the task's own cases and that the tester's cases
        kill."""
        killed = {name for case in self.cases for name in case.kills}
        return tuple(name for name in self.lived if name in killed)

    @property
    def survivors(self) -> tuple[str, ...]:
        """Mutants that no case kills: gaps of the suite, or equivalent mutants."""
        return tuple(name for name in self.lived if name not in self.new)

    @property
    def dropped(self) -> tuple[Case, ...]:
        """Cases that the baseline fails, and those that kill no mutant, if there are mutants."""
        dropped = (
            score for score in self.cases if score.refused or (self.mutants and not score.kept)
        )
        return tuple(score.case for score in dropped)

    def summary(self) -> str:
        """The score in one line."""
        whose = "the task's own cases"
        source = f"the baseline and of {self.also}" if self.also else "the baseline"
        killed = f"{whose} detect {len(self.own)} of {len(self.mutants)} seeded bugs of {source}"
        refused = [score for score in self.cases if score.refused]
        fails = (
            f"; discarded: {counted(len(refused), 'case')} that the baseline fails"
            if refused
            else ""
        )
        if not self.mutants:
            kept = "all other cases count" if refused else "all cases count"
            return f"no seeded bug of {source} could be built: {kept}{fails}"
        if self.lived:
            killed += f"; the {len(self.cases)} proposed ones detect {len(self.new)} of the"
            killed += f" {len(self.lived)} surviving ones"
        killed += fails
        if count := len(self.dropped) - len(refused):
            killed += "; " if refused else "; discarded: "
            killed += f"{counted(count, 'case')} that detect{'s' * (count == 1)} none"
        if self.harmless:
            changing = counted(len(self.harmless), "bug that changes", "bugs that change")
            killed += f"; left out: {changing} no result"
        return killed


def together(own: CaseScores, other: CaseScores, name: str) -> CaseScores:
    """Scores of the same cases by the baseline's bugs and by those of a candidate of that name."""

    def named(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(f"{name}: {one}" for one in names)

    cases = []
    for one, also in zip(own.cases, other.cases, strict=True):
        failed = f"{name}: {also.unjudged}" if also.unjudged else ""
        kills, unjudged = (*one.kills, *named(also.kills)), one.unjudged or failed
        cases.append(one.model_copy(update={"kills": kills, "unjudged": unjudged}))
    return CaseScores(
        asked=own.asked,
        mutants=(*own.mutants, *named(other.mutants)),
        own=(*own.own, *named(other.own)),
        cases=tuple(cases),
        harmless=(*own.harmless, *named(other.harmless)),
        also=name,
    )


class SuiteScore(Value):
    """A task's own check cases, scored by mutation."""

    mutants: tuple[str, ...]
    own: tuple[str, ...]
    """Names of the mutants that the task's own check cases detect."""
    drawn: tuple[str, ...]
    """Names of the mutants that drawn cases alone kill: the task's own cases miss them."""
    unreached: tuple[str, ...] = ()
    """Names of mutants in code that no case reaches; not among `mutants`."""
    none_because: str = Field(default="", exclude_if=lambda why: not why)
    """Why no mutant was made or run."""

    @property
    def survivors(self) -> tuple[str, ...]:
        """Names of the mutants that no case kills: taken to be equivalent."""
        known = {*self.own, *self.drawn}
        return tuple(name for name in self.mutants if name not in known)

    @property
    def tells(self) -> bool:
        """Whether any bug could show what the cases are worth."""
        return bool(self.mutants)

    def lines(self) -> list[str]:
        if not self.tells:
            why = self.none_because or "no valid case reaches the code that they are in"
            first = f"seeded bugs: none could be put into the baseline: {why}; the cases are not"
            first += " scored (--mutants 0 checks the task without seeded bugs)"
        else:
            first = f"seeded bugs: the check cases detect {len(self.own)} of {len(self.mutants)}"
            if len(self.mutants) < FEW:
                first += "; a sample that is too small to score the cases"
        return [
            first,
            *(f"  detected only by drawn cases: {name}" for name in self.drawn),
            *(f"  survived (possibly an equivalent mutant): {name}" for name in self.survivors),
            *(f"  left out because no valid case reaches it: {name}" for name in self.unreached),
        ]
