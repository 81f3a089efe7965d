"""The prompt of the selector's model when two speakers are legal: a pure function of the state."""

from __future__ import annotations

from collections.abc import Sequence

from astra_chat.agents.position import position_line
from astra_chat.agents.run_state import RunState
from astra_chat.agents.turns import Speaker
from astra_chat.tools.text import one_line


def question(state: RunState, legal: Sequence[Speaker]) -> str:
    """The last analysis, and the roles to choose from."""
    analysis = state.analysis
    profiler = f"The profiler's analysis: {one_line(analysis.words)}\n" if analysis else ""
    return (
        "You choose which agent acts next in a team that makes a CUDA kernel faster.\n"
        f"{profiler}The planner would choose the next change; the tester would first write further "
        f"test cases. Answer with one JSON object whose 'choose' is one of: {', '.join(legal)}.\n"
        f"{position_line(state.position('selector'))}"
    )
