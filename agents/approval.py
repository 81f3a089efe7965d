"""What a human is asked, and the turns that an answer amounts to: pure functions of the thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from astra_chat.agents import run_state, search_state
from astra_chat.agents.approval_gates import Gate, gate
from astra_chat.agents.run_state import Limits, Thread, Turn
from astra_chat.agents.turns import Approval, Kernel, Payload, Plan
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
    """Where it was run already; if winners are confirmed, on fresh seeds, after the sanitizers."""
    found: float | None = None
    """Its ratio over the baseline in the search, before that."""

    @property
    def words(self) -> str:
        """In half a sentence."""
        asked = "to be run" if self.gate == "run" else "to be accepted as the best"
        return f"candidate {self.kernel.candidate} of round {self.round} waits {asked}"


def question(thread: Thread, baseline: str, limits: Limits) -> Question | None:
    """What the human has to decide now; None if nothing."""
    asked = gate(thread, limits)
    if asked is None:
        return None
    last, before = thread[-1].payload, thread[-2].payload
    one = run_state.rounds(thread)[-1]
    attempt = next(a for a in one.attempts[::-1] if a.kernel.candidate == _asked_about(thread))
    found = search_state.parent_of(thread, one.number)
    source = run_state.source_of(thread, found.candidate) if found else None
    return Question(
        gate=asked,
        number=sum(turn.speaker == "human" for turn in thread),
        round=one.number,
        author=attempt.speaker,
        kernel=attempt.kernel,
        plan=one.plan,
        parent=source or baseline,
        parent_name=found.candidate if found and source else "the baseline",
        before=_ratio(found) or 1.0,
        build=attempt.build,
        evaluation=last if isinstance(last, Evaluation) else None,
        found=_ratio(before) if run_state.confirms(last) else None,
    )


def _ratio(said: Payload | None) -> float | None:
    timed = said.outcome if isinstance(said, Evaluation) else None
    return timed.ratio if isinstance(timed, Timed) else None


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


def describe_approval(approval: Approval) -> str:
    """The human's decision."""
    match approval.decision:
        case "approve":
            return f"approves {approval.candidate}"
        case "approve_all":
            return f"approves {approval.candidate} and whatever follows"
        case "reject":
            return f"rejects {approval.candidate}: {approval.reason or 'no reason given'}"
