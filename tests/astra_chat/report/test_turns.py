"""The turns' texts are those of a live run, and nothing between turns is lost."""

from __future__ import annotations

from pathlib import Path

from astra_chat.report.turns import texts_of
from astra_chat.transcript.events import Contradiction, Deviation, RejectedReply
from astra_chat.transcript.reader import read
from astra_chat.transcript.spending import ModelCall, Tokens
from astra_chat.transcript.writer import Writer
from tests.chat_samples import write_transcript

ROOT = Path(__file__).parents[3]


def test_of_a_recorded_run() -> None:
    transcript = read(ROOT / "transcripts/examples/virtual/silu_and_mul.jsonl.xz")
    found = texts_of(transcript.records)
    assert [one.number for one in found.turns] == list(range(1, len(found.turns) + 1))
    assert [one.speaker for one in found.turns[:5]] == [
        "user",
        "tester",
        "executor",
        "executor",
        "planner",
    ]
    assert found.turns[0].chosen == "opens the chat" and found.turns[4].chosen == "chosen by rule"
    assert found.turns[4].round == 1 and found.turns[3].round == 0
    assert all(one.lines and one.title for one in found.turns) and not found.after


def test_what_is_recorded_between_turns(tmp_path: Path) -> None:
    records = read(write_transcript(tmp_path / "t.jsonl")).records
    writer = Writer(tmp_path / "whole.jsonl", "run-1")
    first = next(n for n, r in enumerate(records) if r.turn == 2)
    writer.append(*(r.event for r in records[:first]))
    writer.append(
        ModelCall(role="tester", model="m", tokens=Tokens(prompt=10, completion=2)),
        RejectedReply(speaker="tester", reason="empty"),
    )
    writer.append(*(r.event for r in records[first:-1]))
    writer.append(
        Contradiction(speaker="profiler", reason="no such metric", stands=True),
        Deviation(candidate="abc", expected="tie", found="accepted"),
    )
    writer.close()
    found = texts_of(read(tmp_path / "whole.jsonl").records)
    assert found.turns[1].before == [
        "tester asked m: 10 tokens in, 2 out",
        "tester's reply was sent back: empty",
    ]
    assert len(found.after) == 2 and "expected: tie for abc" in found.after[1]
