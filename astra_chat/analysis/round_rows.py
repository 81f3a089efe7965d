"""One row for each round of a run, and one for each turn of its chat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from astra_chat.agents.plan_predictions import Prediction
from astra_chat.agents.turns import Plan, RunRequest, TestSuite, Turn
from astra_chat.analysis.evaluation_rows import run_columns
from astra_chat.analysis.rows import RoundRow, TurnRow
from astra_chat.tools.descriptions import describe_build, describe_evaluation
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.wording import counted
from astra_chat.transcript.events import Chosen, TurnEvent
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.spending import ModelCall, Tokens
from astra_chat.transcript.summary import RoundSummary, RunSummary
from astra_chat.transcript.turns import texts, turn


def turn_rows(transcript: Transcript) -> list[TurnRow]:
    """Every turn of the chat, in order."""
    return list(_turns(transcript, run_columns(transcript)))


def _turns(transcript: Transcript, columns: dict[str, Any]) -> Iterator[TurnRow]:
    stored = texts(transcript.records)
    before, rounds, tokens, chosen_by = 0.0, 0, Tokens(), ""
    for record in transcript.records:
        match record.event:
            case ModelCall():
                tokens += record.event.tokens
            case Chosen(decision=decision):
                chosen_by = decision.by
        if not isinstance(record.event, TurnEvent):
            continue
        said = turn(record.event, stored)
        rounds += isinstance(said.payload, Plan)
        yield TurnRow(
            **columns,
            turn=record.turn,
            t=record.t,
            seconds=max(0.0, record.t - before),
            round=rounds,
            role=said.speaker,
            kind=said.kind,
            words=words(said),
            candidate=getattr(said.payload, "candidate", ""),
            chosen_by=chosen_by,
            prompt_tokens=tokens.prompt,
            completion_tokens=tokens.completion,
            usd=tokens.usd,
        )
        before, tokens, chosen_by = record.t, Tokens(), ""


def words(said: Turn) -> str:
    """What a turn says, as plain text; of a kernel without its source."""
    match said.payload:
        case Plan() as plan:
            return f"{plan.title}: {plan.change} {plan.why}"
        case RunRequest(task=task, summary=summary):
            return f"{task}: {summary}"
        case CaseScores() as scores:
            bugs = counted(len(scores.mutants), "seeded bug")
            return f"{counted(len(scores.cases), 'case')} scored by {bugs}"
        case BuildReport() as report:
            return describe_build(report)
        case Evaluation() as evaluation:
            return describe_evaluation(evaluation)
        case TestSuite(words=text):
            return text
        case payload:
            return getattr(payload, "words", "") or getattr(payload, "reason", "")


def round_rows(
    transcript: Transcript, summary: RunSummary, turns: Sequence[TurnRow]
) -> list[RoundRow]:
    """Every round, in order. `turns` are the run's."""
    columns = run_columns(transcript)
    rows, best = list[RoundRow](), 1.0
    own: dict[int, list[TurnRow]] = {}
    for row in turns:
        own.setdefault(row.round, []).append(row)
    for one in summary.rounds:
        rows.append(_round(columns, one, best, own.get(one.number, [])))
        best = rows[-1].best_ratio or best
    return rows


def _round(
    columns: dict[str, Any], one: RoundSummary, best: float, turns: Sequence[TurnRow]
) -> RoundRow:
    predicted: Prediction | None = one.prediction
    prices = [row.usd for row in turns]
    return RoundRow(
        **columns,
        round=one.number,
        title=one.title,
        parent=one.parent,
        predicted_ratio=one.predicted_ratio,
        metric=predicted.metric if predicted else "",
        moves=predicted.moves if predicted else "",
        actual_ratio=predicted.actual_ratio if predicted else None,
        metric_before=predicted.before if predicted else None,
        metric_after=predicted.after if predicted else None,
        moved=predicted.moved if predicted else "unsaid",
        kernels=len(one.attempts),
        failed=sum(attempt.failed for attempt in one.attempts),
        accepted=any(attempt.verdict == "accepted" for attempt in one.attempts),
        best_candidate=one.best.candidate if one.best else "",
        best_ratio=one.best.ratio if one.best else None,
        best_low=one.best.low if one.best else None,
        best_high=one.best.high if one.best else None,
        gain=one.best.ratio / best if one.best else 1.0,
        tokens=sum(row.prompt_tokens + row.completion_tokens for row in turns),
        usd=None if None in prices else sum(price or 0.0 for price in prices),
        seconds=sum(row.seconds for row in turns),
    )
