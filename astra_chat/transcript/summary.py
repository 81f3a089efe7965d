"""A run as one document, for --json and for Python: derived from its records alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import ConfigDict, Field

from astra_chat.agents.rounds import Attempt, Round, failed
from astra_chat.agents.run_state import RunState
from astra_chat.tools.descriptions import describe, verdict
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.types import (
    AnyTime,
    Basis,
    Case,
    Device,
    Outcome,
    Timed,
    Value,
)
from astra_chat.transcript.events import (
    Contradiction,
    Deviation,
    Ended,
    Header,
    Record,
    Resumed,
)
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.spending import Spent
from astra_chat.transcript.turns import state_of


class AttemptSummary(Value):
    """One candidate."""

    speaker: str
    candidate: str
    verdict: str | None
    """Kind of the outcome, or accepted, tie, slower; None if the run ended before."""
    words: str
    ratio: float | None
    """Over the baseline; None if it was not timed."""
    rejected: str | None = None
    """Why the human did not want it run or accepted; None if that did not happen."""


class RoundSummary(Value):
    number: int
    title: str
    predicted_ratio: float
    """By the plan, over its parent."""
    parent: str = ""
    """The candidate that the plan changes; "" for the baseline."""
    attempts: tuple[AttemptSummary, ...]


class Timing(Value):
    """A timed candidate, or the baseline against itself."""

    confirmed: bool
    """On fresh seeds, after the search: the figure to report."""

    candidate: str
    basis: Basis
    ratio: float
    cases: tuple[AnyTime, ...]


class RunSummary(Value):
    """What came of a run."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/run/1"] = Field("astra-chat/run/1", alias="schema")
    run: str
    task: str
    task_id: str
    device: Device
    options: RunOptions
    started: str
    seconds: float
    """Until the last record."""
    extra_cases: tuple[Case, ...]
    """The tester's."""
    baseline: Timing | None
    best: Timing | None
    """None: no candidate was faster."""
    rounds: tuple[RoundSummary, ...]
    deviations: tuple[Deviation, ...]
    contradictions: tuple[Contradiction, ...] = ()
    """Against turns that stand all the same."""
    spent: Spent | None
    """The ledger; None: the run was killed before its end, or recorded before there were any."""
    ended: Ended | None
    """None: the run was killed before its end."""


def summarize(records: Sequence[Record]) -> RunSummary:
    """The summary of a transcript's records; the first holds the header."""
    header, last = records[0].event, records[-1]
    assert isinstance(header, Header)
    options = [r.event.options for r in records if isinstance(r.event, Header | Resumed)]
    state = state_of(records)
    spent = [r.event for r in records if isinstance(r.event, Spent)]
    return RunSummary(
        schema="astra-chat/run/1",
        run=last.run,
        task=header.task.name,
        task_id=header.task.id,
        device=header.device,
        options=options[-1],
        started=header.started,
        seconds=last.t,
        extra_cases=state.extra_cases,
        baseline=_timing(state.baseline) if state.baseline else None,
        best=_timing(state.best[0]) if state.best else None,
        rounds=tuple(_round(one, state) for one in state.rounds),
        deviations=tuple(r.event for r in records if isinstance(r.event, Deviation)),
        contradictions=tuple(
            r.event for r in records if isinstance(r.event, Contradiction) and r.event.stands
        ),
        spent=spent[-1] if spent else None,
        ended=last.event if isinstance(last.event, Ended) else None,
    )


def _round(one: Round, state: RunState) -> RoundSummary:
    parent = one.parent.candidate if one.parent else ""
    return RoundSummary(
        number=one.number,
        title=one.plan.title,
        predicted_ratio=one.plan.predicted_ratio,
        parent=parent if parent in state.sources else "",
        attempts=tuple(_attempt(attempt) for attempt in one.attempts),
    )


def _attempt(attempt: Attempt) -> AttemptSummary:
    outcome: Outcome | None = attempt.evaluation.outcome if attempt.evaluation else None
    if outcome is None and attempt.build is not None and failed(attempt.build):
        result = attempt.build.result
        outcome = None if result.kind == "built" else result
    return AttemptSummary(
        speaker=attempt.speaker,
        candidate=attempt.kernel.candidate,
        verdict=verdict(outcome) if outcome else None,
        words=describe(outcome) if outcome else "",
        ratio=outcome.ratio if isinstance(outcome, Timed) else None,
        rejected=attempt.rejected,
    )


def _timing(evaluation: Evaluation) -> Timing | None:
    timed = evaluation.outcome
    if not isinstance(timed, Timed):
        return None
    return Timing(
        confirmed=evaluation.confirms,
        candidate=evaluation.candidate,
        basis=timed.basis,
        ratio=timed.ratio,
        cases=timed.cases,
    )
