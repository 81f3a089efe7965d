"""What the selector's model is asked where two speakers are legal: pure, of the state alone."""

from __future__ import annotations

from collections.abc import Sequence

from astra_chat.agents.prompt import stamp
from astra_chat.agents.run_state import RunState
from astra_chat.agents.turns import Speaker
from astra_chat.tools.text import one_line


def question(state: RunState, legal: Sequence[Speaker]) -> str:
    """What the selector's model is asked: the last analysis, and between whom it may choose."""
    analysis = state.analysis
    profiler = f"The profiler said: {one_line(analysis.words)}\n" if analysis else ""
    return (
        "You choose who speaks next in a team that makes a CUDA kernel faster.\n"
        f"{profiler}The planner would choose the next change; the tester would first write further "
        f"test cases. Answer with one JSON object whose 'choose' is one of: {', '.join(legal)}.\n"
        f"{stamp(state.position('selector'))}"
    )
