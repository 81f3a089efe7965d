"""A run that waits, read and answered by another process."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.agents.approval import decision
from astra_chat.agents.turns import Kernel, Turn
from astra_chat.approval.pending import record, waiting
from astra_chat.tools.errors import BadInput
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import turns_of
from tests.chat_samples import SCALAR, VECTOR, asking_turns, build, plan, write_transcript

TURNS = [
    *asking_turns(),
    Turn("planner", plan()),
    Turn("coder", Kernel(words="", source=VECTOR)),
    Turn("executor", build(VECTOR)),
]


def test_the_question_comes_out_of_the_transcript(tmp_path: Path) -> None:
    found = waiting(write_transcript(tmp_path / "transcript.jsonl", TURNS))
    assert found.question.kernel.source == VECTOR and found.question.parent == SCALAR


def test_an_answer_is_appended(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl", TURNS)
    before = path.read_bytes()
    found = waiting(path)
    answer = decision(found.question, "edit", source=SCALAR)
    record(found, answer)
    assert path.read_bytes().startswith(before)
    assert turns_of(read(path).records) == [*TURNS, answer]
    with pytest.raises(BadInput, match="has grown"):
        record(found, answer)


def test_where_nothing_waits(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no decision is pending"):
        waiting(write_transcript(tmp_path / "t.jsonl"))
