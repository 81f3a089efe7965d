"""A run that waits, read and answered by another process."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.agents.approval import decision
from astra_chat.agents.run_state import state_of
from astra_chat.agents.turns import Turn
from astra_chat.approval.pending import record, waiting
from astra_chat.session.final_message import ended
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import turns_of
from astra_chat.transcript.writer import Writer, events_of
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import (
    SCALAR,
    VECTOR,
    asking_turns,
    coded,
    evaluation,
    plan,
    timed,
    write_transcript,
)

TURNS = [*asking_turns(), Turn("planner", plan()), *coded(VECTOR)]


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


def waits_then(path: Path, *decisions: Turn) -> None:
    """The run ended waiting; each decision takes the place of the one before."""
    transcript = read(path)
    writer = Writer.go_on(transcript, len(transcript.records) - 1)
    writer.append(ended(state_of(TURNS), "waiting"))
    writer.close()
    for said in decisions:
        record(waiting(path), said)


def test_a_decision_can_be_revised_until_it_is_used(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl", TURNS)
    asked = waiting(path).question
    edit = decision(asked, "edit", source=SCALAR + "// wider\n")
    yes, no = decision(asked, "approve"), decision(asked, "reject", "too bold")
    waits_then(path, yes, edit, no)
    assert turns_of(read(path).records) == [*TURNS, no], "one decision, the last"
    found = waiting(path)
    assert found.decided == no and found.question == asked
    assert "wider" not in path.read_text()
    writer = Writer.go_on(read(path))
    writer.append(*events_of(Turn("executor", evaluation(VECTOR, timed(1.9))), set()))
    writer.close()
    found = waiting(path)
    assert found.decided is None and found.question.gate == "accept", "the next question"


def test_where_nothing_waits(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no decision is pending"):
        waiting(write_transcript(tmp_path / "t.jsonl"))
