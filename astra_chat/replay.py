"""Shows a recorded run as the live run looked."""

from __future__ import annotations

from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.turns import thread
from astra_chat.view import View, console


def replay(transcript: Transcript) -> None:
    """Print every record through the live run's view."""
    view = View(console())
    for record in transcript.records:
        view.show(record)


def incompleteness(transcript: Transcript) -> str | None:
    """What a transcript lacks at its end, in one line; None if nothing."""
    if transcript.torn:
        return f"{transcript.path}: the last line was cut off and is left out"
    turns = thread(transcript.records)
    if transcript.ended is None and turns and turns[-1].speaker == "human":
        return f"{transcript.path}: decided; go on with: astra-chat run --resume"
    if transcript.ended is None:
        return f"{transcript.path}: the run was killed before its end; this is all it recorded"
    return None
