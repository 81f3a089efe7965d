"""Bars are for terminals, and leave no trace in the text."""

from __future__ import annotations

import io
import re
from pathlib import Path

from astra_chat.display.console import console
from astra_chat.display.progress_bars import LiveView
from astra_chat.display.run_view import View
from astra_chat.tools.progress import Progress
from astra_chat.transcript.events import Chosen
from astra_chat.transcript.reader import read
from tests.chat_samples import write_transcript


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def live(out: io.StringIO, path: Path, verbose: bool = False) -> str:
    view = LiveView(console(out), verbose)
    for record in read(path).records:
        view.show(record)
        if isinstance(record.event, Chosen):
            for done in range(4):
                view.progress(Progress(step="check", done=done, total=3, text="[x] compared"))
    view.close()
    return out.getvalue()


def test_off_a_terminal_live_and_view_are_the_same_text(tmp_path: Path) -> None:
    path, out = write_transcript(tmp_path / "t.jsonl"), io.StringIO()
    view = View(console(out))
    for record in read(path).records:
        view.show(record)
    assert live(io.StringIO(), path) == out.getvalue()


def test_on_a_terminal_nothing_said_is_lost(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", live(Terminal(), path, verbose=True))
    for piece in ("Four at a time.", "predicts 1.50x", "all cases, weighted", "opens the chat"):
        assert piece in text, piece


def test_on_a_terminal_the_roles_are_short_and_the_rounds_a_table(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", live(Terminal(), path))
    assert "all cases, weighted" in text and "1.90x the baseline's speed" in text
    assert "round  candidate" in text and "estimated speed" in text and "1.90x accepted" in text
    assert "): asking the planner (round 1 of at most" in text and "3/3" in text
    assert "chosen by rule" not in text and "--verbose" in text
