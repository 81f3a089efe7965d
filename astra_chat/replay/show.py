"""Shows a recorded run as the live run looked."""

from __future__ import annotations

import json
from dataclasses import asdict

from rich.text import Text

from astra_chat.display.console import console
from astra_chat.display.run_view import View
from astra_chat.transcript.reader import Transcript


def replay(transcript: Transcript, quiet: bool = False) -> None:
    """Print every record through the live run's view; `quiet`: the result only."""
    view = View(console(), quiet)
    for record in transcript.records:
        view.show(record)
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
