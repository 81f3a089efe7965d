"""Shows a recorded run as the live run looked: all of it, or some turns, at once or in its time."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict

import click
from rich.console import Console
from rich.text import Text

from astra_chat.display.console import console
from astra_chat.display.run_view import View
from astra_chat.replay.selection import Selection, belongs_to, chosen_turns
from astra_chat.transcript.events import Header, TurnEvent
from astra_chat.transcript.reader import Transcript

LESS = "FRX"
"""Colours stay, and what fits on the screen ends at once; git has the same."""
EVERYTHING = Selection()


def replay(
    transcript: Transcript,
    quiet: bool = False,
    wanted: Selection = EVERYTHING,
    speed: float | None = None,
    pager: bool = False,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Print records through the live run's view; `quiet`: the result only.

    `speed`: as many times as fast as the run was; None: at once. Raises BadInput for a turn, round
    or role that is not there.
    """
    chosen = chosen_turns(transcript, wanted) if wanted else None
    out = console()
    if not pager:
        _show(transcript, out, quiet, chosen, speed, pause)
        return
    with out.capture() as captured:
        _show(transcript, out, quiet, chosen, None, pause)
    os.environ.setdefault("LESS", LESS)
    click.echo_via_pager(captured.get(), color=True)


def wants_pager(asked: bool | None) -> bool:
    """Unless it was asked: where a person sits at a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty() if asked is None else asked


def _show(
    transcript: Transcript,
    out: Console,
    quiet: bool,
    chosen: set[int] | None,
    speed: float | None,
    pause: Callable[[float], None],
) -> None:
    view, before = View(out, quiet), 0.0
    for record in transcript.records:
        shown = chosen is None or isinstance(record.event, Header) or belongs_to(record) in chosen
        if speed is not None and shown and isinstance(record.event, TurnEvent):
            pause(max(0.0, record.t - before) / speed)
            before = record.t
        view.show(record, hidden=not shown)
    view.close()


def show_prompts(transcript: Transcript, turn: int | None, as_json: bool) -> None:
    """Print the models' prompts in full. Raises BadInput for a turn without one."""
    # Here, for a replay without prompts starts sooner without them.
    from astra_chat.replay.prompts import prompts

    found = list(prompts(transcript, turn))
    if as_json:
        print(json.dumps([asdict(prompt) for prompt in found], indent=2))
        return
    out = console()
    for prompt in found:
        title = f"turn {prompt.turn}, {prompt.role}"
        parts = [("system", prompt.system), ("user", prompt.user)]
        for part, text in [*parts, *(("a reply was sent back", words) for words in prompt.again)]:
            if text:
                out.print(Text(f"--- {title}, {part}: {len(text):,} characters", "bold"))
                out.print(Text(text), soft_wrap=True)
