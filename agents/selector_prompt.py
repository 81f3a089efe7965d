"""What the selector's model is asked where two speakers are legal: pure, of the thread alone."""

from __future__ import annotations

from collections.abc import Sequence

from astra_chat.agents import run_state
from astra_chat.agents.prompt import stamp
from astra_chat.agents.run_state import Thread
from astra_chat.agents.turns import Analysis, Speaker
from astra_chat.tools.text import one_line


def question(thread: Thread, legal: Sequence[Speaker]) -> str:
    """What the selector's model is asked: the last analysis, and between whom it may choose."""
    analyses = run_state.turns_of(thread, Analysis)
    said = f"The profiler said: {one_line(analyses[-1].words)}\n" if analyses else ""
    return (
        "You choose who speaks next in a team that makes a CUDA kernel faster.\n"
        f"{said}The planner would choose the next change; the tester would first write further "
        f"test cases. Answer with one JSON object whose 'choose' is one of: {', '.join(legal)}.\n"
        f"{stamp(run_state.position('selector', thread))}"
    )
