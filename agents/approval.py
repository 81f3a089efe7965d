"""What a human is asked, and the turns that an answer amounts to: pure functions of the thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from astra_chat.agents import search
from astra_chat.agents import thread as facts
from astra_chat.agents.payloads import Approval, Kernel, Plan
from astra_chat.agents.thread import Gate, Thread, Turn
from astra_chat.tools.types import BuildReport, Evaluation, Timed

Word = Literal["approve", "approve_all", "reject", "edit"]


@dataclass(frozen=True)
class Question:
    """May this candidate be run, or is it accepted?"""

    gate: Gate
    number: int
    """Decisions of the human before this one."""
    round: int
    author: str
    kernel: Kernel
    plan: Plan | None
    parent: str
    """Source that the plan changes."""
    parent_name: str
    before: float
    """The parent's ratio over the baseline."""
    build: BuildReport | None
    evaluation: Evaluation | None
    """Where it was run already."""

    @property
    def words(self) -> str:
        """In half a sentence."""
        asked = "to be run" if self.gate == "run" else "to be accepted as the best"
        return f"candidate {self.kernel.candidate} of round {self.round} waits {asked}"


def question(thread: Thread, baseline: str) -> Question | None:
    """What the human has to decide now; None if nothing."""
    asked = facts.gate(thread)
    if asked is None:
        return None
    one = facts.rounds(thread)[-1]
    attempt = next(a for a in one.attempts[::-1] if a.kernel.candidate == _asked_about(thread))
    found = search.parent_of(thread, one.number)
    source = facts.source_of(thread, found.candidate) if found else None
    return Question(
        gate=asked,
        number=sum(turn.speaker == "human" for turn in thread),
        round=one.number,
        author=attempt.speaker,
        kernel=attempt.kernel,
        plan=one.plan,
        parent=source or baseline,
        parent_name=found.candidate if found and source else "the baseline",
        before=found.outcome.ratio if found and isinstance(found.outcome, Timed) else 1.0,
        build=attempt.build,
        evaluation=attempt.evaluation,
    )


def _asked_about(thread: Thread) -> str:
    """The candidate of the last turn, a build or an evaluation."""
    last = thread[-1].payload
    assert isinstance(last, BuildReport | Evaluation)
    return last.candidate


def decision(asked: Question, word: Word, reason: str = "", source: str = "") -> Turn:
    """The human's turn. Raises ValueError for an edit that is empty or changes nothing."""
    if word != "edit":
        name = asked.kernel.candidate
        return Turn("human", Approval(candidate=name, decision=word, reason=reason))
    if not source.strip() or source == asked.kernel.source:
        raise ValueError("the edit is empty" if not source.strip() else "the edit changes nothing")
    words = reason or f"An edit of {asked.kernel.candidate}."
    return Turn("human", Kernel(words=words, source=source))
