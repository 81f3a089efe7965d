"""A recorded run as typed objects: what `from astra_chat import load_transcript` returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from astra_chat.agents.plan_predictions import Prediction
from astra_chat.agents.turns import Plan, RunRequest, TestSuite, Turn
from astra_chat.analysis.evaluation_rows import evaluation_rows, run_columns
from astra_chat.analysis.rows import EvaluationRow, RoundRow, TurnRow
from astra_chat.tools.descriptions import describe_build, describe_evaluation
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.wording import counted
from astra_chat.transcript.events import Chosen, TurnEvent
from astra_chat.transcript.reader import Transcript, incompleteness, read
from astra_chat.transcript.spending import ModelCall, Tokens
from astra_chat.transcript.summary import RoundSummary, RunSummary, summarize
from astra_chat.transcript.turns import texts, turn, turns_of

if TYPE_CHECKING:
    from pandas import DataFrame

TableName: TypeAlias = Literal["evaluations", "cases", "rounds", "turns"]


@dataclass(frozen=True)
class RecordedRun:
    """One recorded run. Each property is made when it is first asked for."""

    transcript: Transcript
    """Records as the file has them."""

    @property
    def name(self) -> str:
        return self.transcript.records[0].run

    @property
    def path(self) -> Path:
        return self.transcript.path

    @cached_property
    def columns(self) -> dict[str, Any]:
        """What every row says about the run, by column."""
        return run_columns(self.transcript)

    @cached_property
    def summary(self) -> RunSummary:
        """Baseline, winner, rounds, predictions and what was spent."""
        return summarize(self.transcript.records)

    @cached_property
    def chat(self) -> list[Turn]:
        """The turns as the agents had them: speaker and typed payload."""
        return turns_of(self.transcript.records)

    @cached_property
    def evaluations(self) -> list[EvaluationRow]:
        """Every evaluation, and every candidate that guard or build turned down."""
        return evaluation_rows(self.transcript)

    @cached_property
    def rounds(self) -> list[RoundRow]:
        return round_rows(self.transcript, self.summary, self.turns)

    @cached_property
    def turns(self) -> list[TurnRow]:
        return turn_rows(self.transcript)

    @cached_property
    def sources(self) -> dict[str, str]:
        """Text of every stored source and task file, by the first 12 hex digits of its sha256."""
        return {sha[:12]: text for sha, text in texts(self.transcript.records).items()}

    @property
    def incomplete(self) -> str | None:
        """What is missing at the end, in one line; None if nothing is."""
        return incompleteness(self.transcript)

    def frame(self, table: TableName) -> DataFrame:
        """A table as a pandas DataFrame (extra `analysis`): see `frame` of several runs."""
        return frame([self], table)


def load_transcript(path: str | Path) -> RecordedRun:
    """Read a transcript, or the one in a run's folder. Raises BadInput in one clear line."""
    return RecordedRun(read(Path(path)))


def frame(runs: Sequence[RecordedRun], table: TableName) -> DataFrame:
    """A table of several runs as one DataFrame.

    `evaluations`, `rounds` and `turns` have a row for each; `cases` has a row for each timed case
    of an evaluation, with the evaluation's columns. Columns are documented in docs/analysis.md.
    Raises MissingDependency without pandas.
    """
    from astra_chat.analysis.frames import case_frame, frame_of

    if table == "cases":
        return case_frame([row for run in runs for row in run.evaluations])
    if table == "evaluations":
        return frame_of(EvaluationRow, [row for run in runs for row in run.evaluations])
    if table == "rounds":
        return frame_of(RoundRow, [row for run in runs for row in run.rounds])
    return frame_of(TurnRow, [row for run in runs for row in run.turns])


# One row for each round of a run, and one for each turn of its chat.


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
