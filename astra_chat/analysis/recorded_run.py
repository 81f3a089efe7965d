"""A recorded run as typed objects: what `from astra_chat import load_transcript` returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from astra_chat.agents.turns import Turn
from astra_chat.analysis.evaluation_rows import evaluation_rows, run_columns
from astra_chat.analysis.round_rows import round_rows, turn_rows
from astra_chat.analysis.rows import EvaluationRow, RoundRow, TurnRow
from astra_chat.transcript.reader import Transcript, incompleteness, read
from astra_chat.transcript.summary import RunSummary, summarize
from astra_chat.transcript.turns import texts, turns_of

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
