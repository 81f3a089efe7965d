"""What a reader sees: who speaks, who chose, figures with their basis, and no markup."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from astra_chat.agents.turn_order import Decision
from astra_chat.agents.turns import TestSuite, Turn
from astra_chat.display.console import WIDTH, console
from astra_chat.transcript.events import (
    Chosen,
    Contradiction,
    Deviation,
    Event,
    Header,
    Record,
    RejectedReply,
    RepeatedRun,
)
from astra_chat.transcript.reader import read
from astra_chat.transcript.writer import events_of
from tests.astra_chat.display.view_text import shown
from tests.chat_samples import asking_turns, plan, write_transcript


def events(*all_events: Event) -> str:
    records = [Record(run="r", seq=i, t=0, turn=1, event=e) for i, e in enumerate(all_events)]
    return shown(records)


def test_a_finished_run(tmp_path: Path) -> None:
    text = shown(read(write_transcript(tmp_path / "t.jsonl")).records)
    for piece in (
        "task doubled, baseline baseline.cu, models scripted",
        "planner  (chosen by rule)",
        "predicts 1.50x over its parent",
        "the plan predicted 1.50x over its parent, estimated 1.90x",
        "global_load_requests 100 before, global_load_requests 25 now",
        "evidence, estimated: global_load_requests 25",
        "estimated for NVIDIA H200, L2 cold, over baseline.cu",
        "all cases, weighted: estimated 1.90x the baseline's speed",
    ):
        assert piece in text.replace("\n     ", " "), piece


def test_off_a_terminal_there_is_no_colour_and_no_ragged_end(tmp_path: Path) -> None:
    text = shown(read(write_transcript(tmp_path / "t.jsonl")).records)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= WIDTH
    assert not [line for line in text.splitlines() if line != line.rstrip()]


def test_every_printed_estimate_says_so(tmp_path: Path) -> None:
    text = shown(read(write_transcript(tmp_path / "t.jsonl")).records)
    for line in text.splitlines():
        if "1.90x" in line:
            assert "estimated" in line, line


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (Decision(speaker="planner", by="rule", legal=("planner",)), "(chosen by rule)"),
        (
            Decision(speaker="planner", by="model", legal=("planner", "tester")),
            "(chosen by the selector's model between planner or tester)",
        ),
        (
            Decision(
                speaker="planner", by="rule", legal=("planner", "tester"), rejected=("no",) * 3
            ),
            "model named neither",
        ),
    ],
)
def test_who_chose_is_shown(decision: Decision, words: str) -> None:
    said = events_of(Turn("planner", plan()), set())
    assert words in events(Chosen(decision=decision), *said)


def test_deviations_and_repairs_take_one_line() -> None:
    text = events(
        Deviation(candidate="abc", expected="accepted", found="tie"),
        RejectedReply(speaker="planner", reason="it does not fit"),
        Contradiction(speaker="planner", reason="no such line", stands=False),
        Contradiction(speaker="planner", reason="no such metric", stands=True),
    )
    parted = "differs from the script: for abc, accepted was expected, but the judge found tie"
    assert parted in text.replace("\n     ", " ")
    assert "planner's reply was sent back: it does not fit" in text
    assert "planner is asked to check: no such line" in text
    assert "planner repeats its reply unchanged: no such metric" in text


def test_a_budget_of_evaluations_is_shown_as_it_goes(tmp_path: Path) -> None:
    records = list(read(write_transcript(tmp_path / "t.jsonl")).records)
    head = records[0].event
    assert isinstance(head, Header)
    options = head.options.model_copy(update={"budget": "evaluations=7"})
    limited = head.model_copy(update={"options": options})
    records[0] = records[0].model_copy(update={"event": limited})
    text = shown(records)
    assert "spent so far: 1 of 7 evaluations" in text and "2 of 7 evaluations" in text


def test_quiet_shows_the_end_only(tmp_path: Path) -> None:
    text = shown(read(write_transcript(tmp_path / "t.jsonl")).records, quiet=True)
    assert "planner" not in text and "all cases, weighted" in text


def test_no_color_is_honoured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    coloured = Terminal()
    console(coloured).print("x", style="red")
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    console(plain).print("x", style="red")
    assert "\x1b" in coloured.getvalue() and "\x1b" not in plain.getvalue()


def test_recorded_replies_are_named_as_such_and_as_what_a_result_parts_from(tmp_path: Path) -> None:
    records = read(write_transcript(tmp_path / "t.jsonl")).records
    head = records[0].event
    assert isinstance(head, Header)
    repeats = RepeatedRun(run="r-9", started="2026-11-22T10:00:00+00:00", models="mailbox:box")
    scripted = head.task.model_copy(update={"files": {"script/script.toml": "0" * 64}})
    rounds = head.options.rounds
    for own, answered_by, words in (
        (
            "transcript",
            "Ann",
            "live run r-9 of 2026-11-22 (Ann); every kernel is judged now, on"
            " this machine; --models scripted plays the task's script",
        ),
        ("transcript:f.jsonl", "", "recorded replies: run r-9 of 2026-11-22 (mailbox:box); every"),
        ("transcript", "Bo", f"(Bo), the first {rounds} of its {rounds + 2} rounds; every kernel"),
    ):
        more = 2 if answered_by == "Bo" else 0
        told = repeats.model_copy(update={"answered_by": answered_by, "rounds": rounds + more})
        options = head.options.model_copy(update={"models": own})
        new = head.model_copy(update={"repeats": told, "options": options, "task": scripted})
        text = events(new, Deviation(candidate="abc", expected="accepted", found="tie"))
        plain = " ".join(text.split())
        assert words in plain and "turn 1 differs from the recorded run" in plain
        assert ("--models scripted" in plain) == (own == "transcript")


def test_a_list_s_entries_hang(tmp_path: Path) -> None:
    """Else a wrapped entry could not be told from the next one."""
    user, tester = asking_turns()[:2]
    assert isinstance(tester.payload, TestSuite)
    (case, *_) = tester.payload.cases
    long = case.model_copy(update={"why": "one word after another " * 9})
    tests = tester.payload.model_copy(update={"cases": (long,)})
    path = write_transcript(tmp_path / "t.jsonl", [user, Turn("tester", tests)])
    lines = shown(read(path).records).splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("     - "))
    assert lines[first + 1][:7].isspace() and lines[first + 1][7].isalpha()
