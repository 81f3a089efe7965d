"""A thread comes back from its transcript as the agents had it."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.agents.turns import Kernel, Pass, Turn
from astra_chat.tools.types import Crashed
from astra_chat.transcript.events import Proposed
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import texts, turn, turns_of
from astra_chat.transcript.writer import events_of
from tests.chat_samples import (
    CASE,
    VECTOR,
    WRONG_OUTCOME,
    analysis,
    baseline_turns,
    coded,
    evaluation,
    plan,
    write_transcript,
)

TURNS = [
    *baseline_turns(),
    Turn("planner", plan()),
    *coded(VECTOR, "w"),
    Turn("executor", evaluation(VECTOR, Crashed(case=CASE, message="signal 11"))),
    Turn("fixer", Kernel(words="again", source=VECTOR)),
    Turn("profiler", analysis()),
    Turn("planner", Pass(words="nothing")),
]


def test_every_turn_comes_back(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl", TURNS)
    assert turns_of(read(path).records) == TURNS


def test_nan_survives_the_disk(tmp_path: Path) -> None:
    turns = [*baseline_turns(), Turn("executor", evaluation(VECTOR, WRONG_OUTCOME))]
    back = turns_of(read(write_transcript(tmp_path / "t.jsonl", turns)).records)[-1]
    outcome = back.payload.outcome  # type: ignore[union-attr]
    assert outcome.got != outcome.got, "NaN"


def test_texts_are_by_their_hash(tmp_path: Path) -> None:
    records = read(write_transcript(tmp_path / "t.jsonl", TURNS)).records
    assert VECTOR in texts(records).values()


def test_a_kernel_is_nothing_without_its_source() -> None:
    proposed = events_of(TURNS[4], set())[-1]
    assert isinstance(proposed, Proposed)
    with pytest.raises(KeyError):
        turn(proposed, {})
