"""What a human is asked, and the turns that the answers become: pure functions of the state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from astra_chat.agents.run_state import RunState
from astra_chat.agents.turn_order import AskHuman, Gate, next_step
from astra_chat.agents.turns import Approval, Kernel, Plan, Turn
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.language import written_in
from astra_chat.tools.types import Timed

Choice = Literal["approve", "approve_all", "reject", "edit"]


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
    """None before the candidate was run. If winners are confirmed, the confirmation."""
    search_ratio: float | None = None
    """Ratio over the baseline in the search, before the confirmation."""
    last_round: bool = False
    """No planner speaks after this round."""

    @property
    def text(self) -> str:
        """The question in half a sentence."""
        pending = "to be run" if self.gate == "run" else "to be accepted as the best"
        name = f"{self.kernel.candidate}{written_in(self.kernel.source)}"
        return f"candidate {name} of round {self.round} is waiting {pending}"


def question(state: RunState, baseline: str) -> Question | None:
    """What the human has to decide now; None if nothing. `baseline`: its source."""
    step = next_step(state)
    if not isinstance(step, AskHuman) or state.round is None or state.last is None:
        return None
    last, one, served = state.last.payload, state.round, state.served or state.round
    parent = served.parent
    attempt = next(a for a in one.attempts[::-1] if a.kernel.candidate == state.shown)
    source = state.sources.get(parent.candidate) if parent else None
    return Question(
        gate=step.gate,
        number=state.human_turns,
        round=one.number,
        author=attempt.speaker,
        kernel=attempt.kernel,
        plan=served.plan,
        parent=source or baseline,
        parent_name=parent.candidate if parent and source else "the baseline",
        before=_ratio(parent) or 1.0,
        build=attempt.build,
        evaluation=last if isinstance(last, Evaluation) else None,
        search_ratio=_ratio(state.before_confirmation),
        last_round=one.number >= state.limits.rounds,
    )


def _ratio(evaluation: Evaluation | None) -> float | None:
    timed = evaluation.outcome if evaluation else None
    return timed.ratio if isinstance(timed, Timed) else None


def decision(asked: Question, choice: Choice, reason: str = "", source: str = "") -> Turn:
    """The human's turn. Raises ValueError for an edit that is empty or changes nothing."""
    if choice != "edit":
        name = asked.kernel.candidate
        return Turn("human", Approval(candidate=name, decision=choice, reason=reason))
    if not source.strip() or source == asked.kernel.source:
        raise ValueError("the edit is empty" if not source.strip() else "the edit changes nothing")
    summary = reason or f"An edit of {asked.kernel.candidate}."
    return Turn("human", Kernel(words=summary, source=source))


def describe_approval(approval: Approval) -> str:
    """The human's decision."""
    match approval.decision:
        case "approve":
            return f"approves {approval.candidate}"
        case "approve_all":
            return f"approves {approval.candidate} and all later candidates"
        case "reject":
            return f"rejects {approval.candidate}: {approval.reason or 'no reason given'}"
