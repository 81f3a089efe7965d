"""A run as one document, derived from its records alone: what --json prints and Python gets, and
what the views, the tables and the report only format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import ConfigDict, Field

from astra_chat.agents.plan_predictions import Prediction, PredictionScore, predictions, score
from astra_chat.agents.rounds import Attempt, Round, failed
from astra_chat.agents.run_state import RunState, states
from astra_chat.agents.turns import Turn
from astra_chat.tools.descriptions import describe, verdict
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.timing.intervals import mean_interval
from astra_chat.tools.types import AnyTime, Basis, Case, Device, Outcome, Timed, Value
from astra_chat.transcript.events import Contradiction, Deviation, Ended, Header, Record, Resumed
from astra_chat.transcript.ledger import ledger
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.spending import Spent
from astra_chat.transcript.time_use import TimeUse, time_use
from astra_chat.transcript.turns import turns_of


class Speed(Value):
    """Speed of a candidate over the baseline, all cases weighted."""

    candidate: str
    ratio: float
    low: float
    """Lower end of the interval of `ratio`."""
    high: float
    """Upper end of the interval of `ratio`."""


class AttemptSummary(Value):
    """One candidate."""

    speaker: str
    candidate: str
    verdict: str | None
    """Kind of the outcome, or accepted, tie, slower; None if the run ended before."""
    words: str
    ratio: float | None
    """Speed over the baseline; None if it was not timed."""
    speed: Speed | None = None
    """Speed over the baseline with its interval; None if it was not timed."""
    failed: bool = False
    """It did not build, or its evaluation says that it is not correct."""
    rejected: str | None = None
    """Why the human did not want it run or accepted; None if that did not happen."""


class RoundSummary(Value):
    number: int
    title: str
    predicted_ratio: float
    """Speed over the parent that the plan predicts."""
    parent: str = ""
    """The candidate that the plan changes; "" for the baseline."""
    attempts: tuple[AttemptSummary, ...]
    prediction: Prediction | None = None
    """The plan's prediction beside what came of it; None: nothing of it was judged."""
    best: Speed | None = None
    """The best of the search at the end of the round; None: nothing faster so far."""


class Timing(Speed):
    """A timed candidate, or the baseline against itself."""

    confirmed: bool
    """On fresh seeds, after the search: the figure to report."""
    basis: Basis
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
    """Seconds until the last record."""
    extra_cases: tuple[Case, ...]
    """Cases of the tester that later candidates are checked on."""
    baseline: Timing | None
    best: Timing | None
    """The last timing of the winner; None: no candidate was faster."""
    rounds: tuple[RoundSummary, ...]
    deviations: tuple[Deviation, ...]
    contradictions: tuple[Contradiction, ...] = ()
    """Contradictions of turns that stand all the same."""
    predictions: PredictionScore
    """How good the plans' predictions were."""
    spent: Spent
    """The ledger."""
    time_use: TimeUse = TimeUse()
    """Where the run's time went."""
    ended: Ended | None
    """None: the run was killed before its end."""


def fastest(summary: RunSummary) -> Speed | None:
    """The winner; where there is none, the correct candidate with the highest ratio."""
    if summary.best:
        return summary.best
    attempts = [one for found in summary.rounds for one in found.attempts if not one.failed]
    speeds = [one.speed for one in attempts if one.speed]
    return max(speeds, key=lambda one: one.ratio, default=None)


def summarize(records: Sequence[Record]) -> RunSummary:
    """The summary of a transcript's records; the first holds the header."""
    header, last = records[0].event, records[-1]
    assert isinstance(header, Header)
    options = [r.event.options for r in records if isinstance(r.event, Header | Resumed)]
    state, best = _state_and_best(turns_of(records))
    judged = predictions(state.rounds)
    predicted = {one.round: one for one in judged}
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
        rounds=tuple(
            _round(one, state, predicted.get(one.number), best.get(one.number))
            for one in state.rounds
        ),
        deviations=tuple(r.event for r in records if isinstance(r.event, Deviation)),
        contradictions=tuple(
            r.event for r in records if isinstance(r.event, Contradiction) and r.event.stands
        ),
        predictions=score(judged),
        spent=ledger(records),
        time_use=time_use(records),
        ended=last.event if isinstance(last.event, Ended) else None,
    )


def _state_and_best(turns: Sequence[Turn]) -> tuple[RunState, dict[int, Speed]]:
    """The last state, and the best of the search at the end of each round that has one."""
    best: dict[int, Speed] = {}
    state = RunState()
    for one in states(turns):
        if len(one.rounds) > len(state.rounds) and (found := state.best_of_search):
            best[len(state.rounds)] = _speed(*found)
        state = one
    if found := state.best_of_search:
        best[len(state.rounds)] = _speed(*found)
    best.pop(0, None)  # before the first round
    return state, best


def _round(
    one: Round, state: RunState, prediction: Prediction | None, best: Speed | None
) -> RoundSummary:
    parent = one.parent.candidate if one.parent else ""
    return RoundSummary(
        number=one.number,
        title=one.plan.title,
        predicted_ratio=one.plan.predicted_ratio,
        parent=parent if parent in state.sources else "",
        attempts=tuple(_attempt(attempt) for attempt in one.attempts),
        prediction=prediction,
        best=best,
    )


def _attempt(attempt: Attempt) -> AttemptSummary:
    evaluation = attempt.evaluation
    outcome: Outcome | None = evaluation.outcome if evaluation else None
    unbuilt = evaluation is None and attempt.build is not None and failed(attempt.build)
    if unbuilt and attempt.build is not None and attempt.build.result.kind != "built":
        outcome = attempt.build.result
    return AttemptSummary(
        speaker=attempt.speaker,
        candidate=attempt.kernel.candidate,
        verdict=verdict(outcome) if outcome else None,
        words=describe(outcome) if outcome else "",
        ratio=outcome.ratio if isinstance(outcome, Timed) else None,
        speed=_speed(evaluation, outcome) if evaluation and isinstance(outcome, Timed) else None,
        failed=unbuilt or (evaluation is not None and not attempt.passed),
        rejected=attempt.rejected,
    )


def _timing(evaluation: Evaluation) -> Timing | None:
    timed = evaluation.outcome
    if not isinstance(timed, Timed):
        return None
    return Timing(
        **dict(_speed(evaluation, timed)),
        confirmed=evaluation.confirms,
        basis=timed.basis,
        cases=timed.cases,
    )


def _speed(evaluation: Evaluation, timed: Timed) -> Speed:
    low, high = mean_interval(timed.cases)
    return Speed(candidate=evaluation.candidate, ratio=timed.ratio, low=low, high=high)
