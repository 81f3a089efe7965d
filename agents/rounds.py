"""Rounds of a run: a plan, the candidates written for it, and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from astra_chat.agents.strategy import Tried
from astra_chat.agents.turns import Kernel, Plan, Speaker
from astra_chat.tools.evaluation import BuildReport, Built, Evaluation
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Correct, Timed


@dataclass(frozen=True)
class Attempt:
    """A candidate of a round and its results."""

    speaker: Speaker
    kernel: Kernel
    build: BuildReport | None = None
    evaluation: Evaluation | None = None
    rejected: str | None = None
    """Why the human rejected it."""
    replaced: bool = False
    """The human gave an edited version instead."""
    repairs: str = ""
    """The winner, perhaps of an earlier round, whose repair it is."""
    refused: Evaluation | None = None
    """The confirmation by which it turned out wrong after all."""
    won: Evaluation | None = None
    """The evaluation by which it was to be confirmed, of one that was refused."""

    @property
    def passed(self) -> bool:
        correct = isinstance(getattr(self.evaluation, "outcome", None), Timed | Correct)
        return correct and not self.replaced and self.refused is None

    @property
    def leads(self) -> bool:
        """A tie by estimate whose estimate is faster than the baseline's: a search goes by that."""
        timed = getattr(self.evaluation, "outcome", None)
        if not isinstance(timed, Timed) or self.rejected is not None or not self.passed:
            return False
        return timed.basis == "estimated" and timed.verdict == "tie" and timed.ratio > 1

    @property
    def unbuilt(self) -> bool:
        return self.build is None and self.evaluation is None

    @property
    def may_run(self) -> bool:
        """It was built, was not run yet, and no human rejected it."""
        built = self.build is not None and not failed(self.build)
        return built and self.evaluation is None and self.rejected is None and not self.replaced


@dataclass(frozen=True)
class Round:
    """A plan and the candidates written for it."""

    number: int
    plan: Plan
    parent: Evaluation | None
    """What the plan changes, chosen before the plan; None if the baseline was never judged."""
    parent_index: int = 0
    """Index of the parent among what had been tried."""
    attempts: tuple[Attempt, ...] = ()
    tuning: Tuning | None = None
    """What tuning found for one of its candidates; None where none was tuned."""

    def with_kernel(self, speaker: Speaker, kernel: Kernel, repairs: str = "") -> Round:
        attempt = Attempt(speaker, kernel, repairs=repairs)
        return replace(self, attempts=(*self.attempts, attempt))

    def with_build(self, report: BuildReport) -> Round:
        return self._changed(
            report.candidate, lambda one: not one.build, lambda one: replace(one, build=report)
        )

    def with_evaluation(self, found: Evaluation) -> Round:
        return self._changed(
            found.candidate,
            lambda one: not one.evaluation,
            lambda one: replace(one, evaluation=found),
        )

    def with_rejection(self, candidate: str, reason: str) -> Round:
        return self._changed(
            candidate, lambda one: not one.rejected, lambda one: replace(one, rejected=reason)
        )

    def with_replaced(self, candidate: str) -> Round:
        return self._changed(
            candidate, lambda one: not one.replaced, lambda one: replace(one, replaced=True)
        )

    def with_refused(self, confirmation: Evaluation) -> Round:
        return replace(
            self,
            attempts=tuple(
                replace(one, refused=confirmation, won=one.evaluation)
                if one.kernel.candidate == confirmation.candidate
                else one
                for one in self.attempts
            ),
        )

    def with_evaluation_replaced(self, old: Evaluation, new: Evaluation) -> Round:
        same = [i for i, one in enumerate(self.attempts) if one.evaluation is old]
        return self._at(same[-1] if same else -1, lambda one: replace(one, evaluation=new))

    def _changed(
        self,
        candidate: str,
        lacks: Callable[[Attempt], bool],
        change: Callable[[Attempt], Attempt],
    ) -> Round:
        """Returns the round with a fact about a candidate; if it was proposed twice, about the
        first that lacks it."""
        same = [i for i, one in enumerate(self.attempts) if one.kernel.candidate == candidate]
        missing = [i for i in same if lacks(self.attempts[i])]
        last = len(self.attempts) - 1
        return self._at(next(iter([*missing, *same[-1:], last])), change)

    def _at(self, index: int, change: Callable[[Attempt], Attempt]) -> Round:
        if index < 0:
            return self
        attempts = list(self.attempts)
        attempts[index] = change(attempts[index])
        return replace(self, attempts=tuple(attempts))

    def has(self, candidate: str) -> bool:
        return any(one.kernel.candidate == candidate for one in self.attempts)

    @property
    def of_plan(self) -> tuple[Attempt, ...]:
        """The kernels of its own plan: not the repairs of another round's winner."""
        return tuple(one for one in self.attempts if not one.repairs or self.has(one.repairs))

    @property
    def passed(self) -> bool:
        """Whether a kernel is correct."""
        return any(attempt.passed for attempt in self.attempts)

    @property
    def lost(self) -> tuple[Attempt, ...]:
        """Kernels that their confirmation refused and after which no kernel was fixed."""
        fixed = [i for i, one in enumerate(self.attempts) if one.speaker in ("fixer", "single")]
        after = self.attempts[fixed[-1] if fixed else 0 :]
        return tuple(one for one in after if one.refused is not None and not one.repairs)

    @property
    def unbuilt(self) -> tuple[Kernel, ...]:
        return tuple(one.kernel for one in self.attempts if one.unbuilt)

    @property
    def unrun(self) -> Kernel | None:
        """The first kernel that was built and may be run, but was not."""
        return next((one.kernel for one in self.attempts if one.may_run), None)

    @property
    def repairs(self) -> int:
        """Number of kernels that fix an earlier one."""
        return self.kernels_of("fixer") + max(0, self.kernels_of("single") - 1)

    def kernels_of(self, speaker: Speaker) -> int:
        return sum(attempt.speaker == speaker for attempt in self.attempts)


def tried(
    baseline: Evaluation, rounds: Sequence[Round], accepted: Mapping[str, Evaluation]
) -> list[Tried]:
    """All candidates, the baseline first: what a strategy chooses from.

    `accepted`: the evaluations of accepted candidates, by candidate.
    """
    everything = [Tried(baseline, 0, accepted=False)]
    for one in rounds:
        parent = one.parent_index
        everything += [
            Tried(
                accepted.get(attempt.kernel.candidate, attempt.refused or attempt.evaluation),
                parent,
                accepted=attempt.kernel.candidate in accepted or attempt.leads,
            )
            for attempt in one.attempts
        ] or [Tried(None, parent, accepted=False)]
    return everything


def failed(report: BuildReport) -> bool:
    return not isinstance(report.result, Built)
