"""What a run has spent, from its records alone, so that a resumed run has lost nothing of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from astra_chat.agents.turns import Approval
from astra_chat.tools.descriptions import verdict
from astra_chat.tools.evaluation import (
    BuildReport,
    Built,
    Evaluation,
    Step,
)
from astra_chat.tools.types import Correct, StepName, Timed
from astra_chat.transcript.events import (
    BuildDone,
    ChatMessage,
    Chosen,
    Contradiction,
    Judged,
    Proposed,
    Record,
    RejectedReply,
)
from astra_chat.transcript.spending import (
    ModelCall,
    Rejected,
    RoleSpent,
    Spent,
    StepSpent,
    Tokens,
)

ON_GPU: tuple[StepName, ...] = ("check", "sanitize", "time", "profile")
UNUSABLE, CONTRADICTS = "unusable reply", "reply contradicts the facts"
BY_HUMAN = "rejected by the human"


def ledger(records: Sequence[Record]) -> Spent:
    """Everything that was spent up to the last of these records."""
    events = [record.event for record in records]
    roles = _roles(records)
    evaluations = [event.evaluation for event in events if isinstance(event, Judged)]
    builds = [event.report for event in events if isinstance(event, BuildDone)]
    built = [step for report in builds for step in report.steps]
    run = [step for evaluation in evaluations for step in evaluation.steps]
    seconds = _by_step([*built, *run])
    return Spent(
        tokens=_sum(role.tokens for role in roles),
        roles=roles,
        evaluations=len(evaluations),
        steps=tuple(StepSpent(step=name, seconds=round(s, 3)) for name, s in seconds.items()),
        gpu_s=round(sum(gpu_seconds(evaluation) for evaluation in evaluations), 3),
        rejected=_rejected(records, builds, evaluations),
        contradictions=sum(isinstance(event, Contradiction) and event.stands for event in events),
    )


def gpu_seconds(evaluation: Evaluation) -> float:
    """Seconds that an evaluation had a real GPU for itself."""
    if evaluation.device.kind != "cuda":
        return 0.0
    return sum(step.seconds for step in evaluation.steps if step.name in ON_GPU)


def _roles(records: Sequence[Record]) -> tuple[RoleSpent, ...]:
    """Every role's answers, in the order of their first one.

    What came of an answer is recorded right after it, of the selector's all at once.
    """
    answers: dict[str, list[Tokens]] = {}
    unusable: dict[str, list[Tokens]] = {}
    untold: dict[str, list[Tokens]] = {}
    for record in records:
        match record.event:
            case ModelCall(role=role, tokens=tokens):
                answers.setdefault(role, []).append(tokens)
                untold.setdefault(role, []).append(tokens)
            case RejectedReply(speaker=role) | Contradiction(speaker=role, stands=False):
                unusable.setdefault(role, []).extend(untold.pop(role, []))
            case Chosen(decision=decision):
                asked = untold.pop("selector", [])
                unusable.setdefault("selector", []).extend(asked[: len(decision.rejected)])
            case ChatMessage(speaker=role) | Proposed(speaker=role):
                untold.pop(role, None)
            case _:
                pass
    return tuple(
        RoleSpent(
            role=role,
            answers=len(own),
            tokens=_sum(own),
            unusable=len(bad := unusable.get(role, [])),
            unusable_tokens=_sum(bad),
        )
        for role, own in answers.items()
    )


def _sum(tokens: Iterable[Tokens]) -> Tokens:
    return sum(tokens, Tokens())


def _by_step(steps: Iterable[Step]) -> dict[StepName, float]:
    found: dict[StepName, float] = {}
    for step in steps:
        found[step.name] = found.get(step.name, 0.0) + step.seconds
    return found


def _rejected(
    records: Sequence[Record], builds: list[BuildReport], evaluations: list[Evaluation]
) -> tuple[Rejected, ...]:
    """Why candidates and replies were turned down, the most frequent reason first."""
    reasons = Counter(verdict(b.result) for b in builds if not isinstance(b.result, Built))
    for evaluation in evaluations[1:]:  # the first is the baseline's
        outcome = evaluation.outcome
        good = isinstance(outcome, Correct) or (
            isinstance(outcome, Timed) and outcome.verdict == "accepted"
        )
        reasons[verdict(outcome)] += 0 if good else 1
    for record in records:
        match record.event:
            case RejectedReply():
                reasons[UNUSABLE] += 1
            case Contradiction(stands=False):
                reasons[CONTRADICTS] += 1
            case ChatMessage(payload=Approval(decision="reject")):
                reasons[BY_HUMAN] += 1
            case Chosen(decision=decision):
                reasons[UNUSABLE] += len(decision.rejected)
    return tuple(Rejected(reason=r, times=n) for r, n in reasons.most_common() if n)
