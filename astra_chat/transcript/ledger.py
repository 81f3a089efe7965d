"""What a run has spent, from its records alone, so that a resumed run has lost nothing of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import fsum

from astra_chat.agents.turns import Approval
from astra_chat.tools.descriptions import verdict
from astra_chat.tools.evaluation import BuildReport, Built, Evaluation, GpuUse, Step
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Correct, StepName, Timed
from astra_chat.transcript.events import (
    BuildDone,
    ChatMessage,
    Chosen,
    Contradiction,
    Event,
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
    TuningSpent,
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
    gpus, tuning = gpu_use(evaluations), _tuning(events)
    return Spent(
        tokens=_sum(role.tokens for role in roles),
        roles=roles,
        evaluations=len(evaluations),
        steps=_by_step([*built, *run]),
        gpu_s=gpus.held_s + (tuning.gpu_s if tuning else 0.0),
        tuning=tuning,
        gpu_wait_s=round(fsum(map(gpu_wait_s, evaluations)), 3),
        energy_j=gpus.energy_j,
        gpu_busy=gpus.busy,
        rejected=_rejected(records, builds, evaluations),
        contradictions=sum(isinstance(event, Contradiction) and event.stands for event in events),
    )


def gpu_seconds(evaluation: Evaluation) -> float:
    """Seconds in which an evaluation held a real GPU's lease; of an old one, which does not say,
    those of its steps on the GPU."""
    if evaluation.device.kind != "cuda":
        return 0.0
    held = [step.gpu.held_s for step in evaluation.steps if step.gpu is not None]
    old = (step.seconds for step in evaluation.steps if step.name in ON_GPU)
    return fsum(held) if held else fsum(old)


def gpu_wait_s(evaluation: Evaluation) -> float:
    """Seconds in which an evaluation waited for a real GPU's lease."""
    return fsum(step.waited_s for step in evaluation.steps)


def gpu_use(evaluations: Sequence[Evaluation]) -> GpuUse:
    """All evaluations' use of real GPUs, of those parts of which NVML says something."""
    uses = [step.gpu for one in evaluations for step in one.steps if step.gpu is not None]
    energies = [use.energy_j for use in uses if use.energy_j is not None]
    busy = [(use.busy, use.held_s) for use in uses if use.busy is not None]
    watched_s = fsum(held_s for _, held_s in busy)
    return GpuUse(
        held_s=round(fsum(map(gpu_seconds, evaluations)), 3),
        energy_j=round(fsum(energies), 3) if energies else None,
        busy=round(fsum(b * s for b, s in busy) / watched_s, 4) if watched_s else None,
    )


def _tuning(events: Iterable[Event]) -> TuningSpent | None:
    found = [
        event.payload
        for event in events
        if isinstance(event, ChatMessage) and isinstance(event.payload, Tuning)
    ]
    if not found:
        return None
    return TuningSpent(
        candidates=len(found),
        changed=sum(one.changed for one in found),
        points=sum(len(one.points) for one in found),
        measured=sum(one.measured for one in found),
        seconds=round(fsum(one.seconds for one in found), 3),
        gpu_s=round(fsum(one.gpu_s for one in found), 3),
    )


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


def _by_step(steps: Iterable[Step]) -> tuple[StepSpent, ...]:
    found: dict[StepName, list[Step]] = {}
    for step in steps:
        found.setdefault(step.name, []).append(step)
    return tuple(
        StepSpent(
            step=name,
            seconds=round(fsum(step.seconds for step in own), 3),
            waited_s=round(fsum(step.waited_s for step in own), 3),
        )
        for name, own in found.items()
    )


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
