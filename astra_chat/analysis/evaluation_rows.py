"""One row for each evaluation of a run, with the plan behind it and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from astra_chat.agents.run_state import RunState
from astra_chat.agents.turns import Kernel, Plan, Turn
from astra_chat.analysis.rows import CaseRow, EvaluationRow, NamedValue, RunColumns
from astra_chat.tools.descriptions import describe, verdict
from astra_chat.tools.evaluation import BuildReport, Built, Evaluation, Step
from astra_chat.tools.language import language_of
from astra_chat.tools.timing.intervals import mean_interval, percent_of_limit
from astra_chat.tools.types import (
    AnyTime,
    Correct,
    EstimatedTime,
    MeasuredTime,
    Outcome,
    Profile,
    Resources,
    Timed,
)
from astra_chat.transcript.events import Judged, Record, TurnEvent
from astra_chat.transcript.ledger import gpu_seconds, gpu_wait_s
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.recorded_task import baseline_text
from astra_chat.transcript.spending import ModelCall, Tokens
from astra_chat.transcript.turns import texts, turn

OFFLINE = ("scripted", "transcript", "replay", "spoken")
"""Backends whose replies come from a file."""


@dataclass(frozen=True)
class _Proposal:
    """Where a candidate came from."""

    round: int = 0
    attempt: int = 0
    role: str = ""
    changed_from: str = ""
    parent: Evaluation | None = None
    plan: Plan | None = None


@dataclass
class _Progress:
    """What is known so far while the records of a run are read in order."""

    state: RunState
    proposals: dict[str, _Proposal] = field(default_factory=dict)
    build_steps: dict[str, tuple[Step, ...]] = field(default_factory=dict)
    resources: dict[str, tuple[Resources, ...]] = field(default_factory=dict)
    tokens: Tokens = field(default_factory=Tokens)


def run_columns(transcript: Transcript) -> dict[str, Any]:
    """Values of RunColumns."""
    header, options = transcript.header, transcript.options
    columns = RunColumns(
        run=transcript.records[0].run,
        task=header.task.name,
        task_id=header.task.id,
        device=header.device.name,
        device_kind=header.device.kind,
        spec=header.device.spec,
        strategy=str(options.strategy),
        models=options.models,
        live=_live(transcript),
        astra=header.versions.get("astra", ""),
        started=header.started,
    )
    return dict(columns)


def _live(transcript: Transcript) -> bool:
    """Whether the run's models answered live: their backend is none of OFFLINE."""
    return transcript.options.models.partition(":")[0].partition(",")[0] not in OFFLINE


def evaluation_rows(transcript: Transcript) -> list[EvaluationRow]:
    """Every evaluation, and every candidate that guard or build turned down, in order."""
    rows = list(_rows(transcript))
    confirmed = {row.candidate for row in rows if row.confirms and row.verdict == "accepted"}
    best = transcript.ended.best if transcript.ended else None
    return [
        row.model_copy(
            update={"confirmed": row.candidate in confirmed, "best": row.candidate == best}
        )
        for row in rows
    ]


def _rows(transcript: Transcript) -> Iterator[EvaluationRow]:
    columns, stored = run_columns(transcript), texts(transcript.records)
    sources = {sha[:12]: text for sha, text in stored.items()}
    seen = _Progress(RunState(transcript.options.limits))
    for record in transcript.records:
        if isinstance(record.event, ModelCall):
            seen.tokens += record.event.tokens
        if not isinstance(record.event, TurnEvent):
            continue
        said = turn(record.event, stored)
        if isinstance(record.event, Judged) and seen.state.baseline is None:
            sources.setdefault(record.event.evaluation.candidate, baseline_text(transcript))
        row = _row(columns, record, said, seen, sources)
        _note(said, seen)
        seen.state = seen.state.after(said)
        if row is not None:
            seen.tokens = Tokens()
            yield row


def _note(said: Turn, seen: _Progress) -> None:
    """Remember a proposed kernel, and what its build took."""
    state, payload = seen.state, said.payload
    if isinstance(payload, Kernel) and state.round and state.served:
        seen.proposals[payload.candidate] = _Proposal(
            state.round.number,
            len(state.round.attempts) + 1,
            said.speaker,
            state.parent_of(said.speaker),
            state.served.parent,
            state.served.plan,
        )
    if isinstance(payload, BuildReport):
        seen.build_steps[payload.candidate] = payload.steps
        if isinstance(payload.result, Built):
            seen.resources[payload.candidate] = payload.result.resources


def _row(
    columns: dict[str, Any], record: Record, said: Turn, seen: _Progress, sources: dict[str, str]
) -> EvaluationRow | None:
    payload = said.payload
    outcome: Outcome
    match payload:
        case Evaluation(outcome=outcome, candidate=name):
            evaluation: Evaluation | None = payload
            steps = (*(() if payload.confirms else seen.build_steps.get(name, ())), *payload.steps)
        case BuildReport(result=result, candidate=name) if not isinstance(result, Built):
            outcome, evaluation, steps = result, None, payload.steps
        case _:
            return None
    proposal = seen.proposals.get(name, _Proposal())
    return EvaluationRow(
        **columns,
        turn=record.turn,
        candidate=name,
        source=sources.get(name, ""),
        language=language_of(sources.get(name, "")),
        **_proposed(proposal),
        outcome=outcome.kind,
        verdict=verdict(outcome),
        reason=describe(outcome),
        confirmed=False,
        best=False,
        **_figures(outcome),
        **_evidence(evaluation, seen.resources.get(name, ())),
        steps=_summed(steps),
        judge_s=sum(step.seconds for step in steps),
        prompt_tokens=seen.tokens.prompt,
        completion_tokens=seen.tokens.completion,
        usd=seen.tokens.usd,
    )


def _proposed(proposal: _Proposal) -> dict[str, Any]:
    plan = proposal.plan
    parent = proposal.parent
    timed = parent.outcome if parent and isinstance(parent.outcome, Timed) else None
    return {
        "round": proposal.round,
        "attempt": proposal.attempt,
        "role": proposal.role,
        "changed_from": proposal.changed_from,
        "parent": parent.candidate if parent else "",
        "parent_ratio": timed.ratio if timed else None,
        "plan_title": plan.title if plan else "",
        "plan_change": plan.change if plan else "",
        "plan_why": plan.why if plan else "",
        "plan_metric": plan.metric if plan else "",
        "plan_moves": plan.moves if plan else "",
        "plan_risk": plan.risk if plan else "",
        "predicted_ratio": plan.predicted_ratio if plan else None,
    }


def _figures(outcome: Outcome) -> dict[str, Any]:
    """Returns the columns that an outcome fills: figures of a timed or correct one, else None or
    empty."""
    timed = outcome if isinstance(outcome, Timed) else None
    correct = timed.correct if timed else outcome if isinstance(outcome, Correct) else None
    low, high = mean_interval(timed.cases) if timed else (None, None)
    return {
        "basis": timed.basis if timed else None,
        "ratio": timed.ratio if timed else None,
        "ratio_low": low,
        "ratio_high": high,
        "percent_of_limit": percent_of_limit(timed) if timed else None,
        "bottleneck": timed.profile.bottleneck if timed else "",
        "checked_cases": correct.cases if correct else None,
        "hidden_cases": correct.hidden if correct else None,
        "worst_error": correct.worst if correct else None,
        "error_ratio": correct.error_ratio if correct else None,
        "deterministic": correct.deterministic if correct else None,
        "metrics": tuple(
            NamedValue(name=metric.name, value=metric.value) for metric in timed.profile.metrics
        )
        if timed
        else (),
    }


def _evidence(evaluation: Evaluation | None, built: Sequence[Resources]) -> dict[str, Any]:
    evidence = evaluation.evidence if evaluation else None
    resources = (evaluation.resources if evaluation else ()) or built
    outcome = evaluation.outcome if evaluation else None
    plans = {plan.case.label: plan.launches for plan in evidence.plans} if evidence else {}
    return {
        "confirms": evaluation.confirms if evaluation else False,
        "registers": max((one.registers for one in resources), default=None),
        "spill_bytes": max((one.spill_bytes for one in resources), default=None),
        "cases": case_rows(outcome, plans) if isinstance(outcome, Timed) else (),
        "gpu_s": gpu_seconds(evaluation) if evaluation else 0.0,
        "gpu_wait_s": gpu_wait_s(evaluation) if evaluation else 0.0,
        "seed": evaluation.seed if evaluation else "",
        "judge_sha256": evidence.judge_sha256 if evidence else "",
        "cubin_sha256": evidence.cubin_sha256 if evidence else "",
    }


def case_rows(timed: Timed, launches: dict[str, str]) -> tuple[CaseRow, ...]:
    """Returns a row for each timed case. `launches`: what a case launches, in one line, by its
    label."""
    profiles = {one.case.label: one for one in (timed.profile, *timed.other_profiles)}
    return tuple(_case(one, launches, profiles.get(one.case.label)) for one in timed.cases)


def _case(time: AnyTime, launches: dict[str, str], profile: Profile | None) -> CaseRow:
    measured = time if isinstance(time, MeasuredTime) else None
    return CaseRow(
        label=time.case.label,
        case=time.case.model_dump_json(exclude_defaults=True),
        dtype=time.case.dtype,
        weight=time.weight,
        basis=time.basis,
        baseline_us=time.baseline_us,
        median_us=time.median_us,
        ratio=time.ratio,
        ratio_low=time.ratio_low,
        ratio_high=time.ratio_high,
        limit_us=time.limit_us,
        percent_of_limit=time.percent_of_limit,
        baseline_memory_bytes=time.memory.baseline_bytes if time.memory else None,
        memory_bytes=time.memory.bytes if time.memory else None,
        baseline_warm_us=measured.baseline_warm_us if measured else None,
        warm_us=measured.warm_us if measured else None,
        baseline_event_us=measured.baseline_event_us if measured else None,
        event_us=measured.event_us if measured else None,
        limiter=time.limiter if isinstance(time, EstimatedTime) else "",
        launches=launches.get(time.case.label, ""),
        bottleneck=profile.bottleneck if profile else "",
        metrics=_metrics(profile) if profile else (),
    )


def _metrics(profile: Profile) -> tuple[NamedValue, ...]:
    return tuple(NamedValue(name=one.name, value=one.value) for one in profile.metrics)


def _summed(steps: Sequence[Step]) -> tuple[NamedValue, ...]:
    names = dict.fromkeys(step.name for step in steps)
    return tuple(
        NamedValue(name=name, value=sum(s.seconds for s in steps if s.name == name))
        for name in names
    )
