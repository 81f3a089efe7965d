"""When the human decides, and what is confirmed before: pure functions of the thread.

A candidate that would be accepted is evaluated once more first, on fresh seeds and under the
sanitizers: what the human sees at the gate is the whole evidence, never a search's luckiest figure.
"""

from __future__ import annotations

from typing import Literal

from astra_chat.agents.run_state import (
    Limits,
    Thread,
    accepted,
    asks,
    best,
    confirms,
    confirms_last,
    failed,
    turns_of,
)
from astra_chat.agents.turns import Approval, Kernel
from astra_chat.tools.types import BuildReport, Evaluation

Gate = Literal["run", "accept"]


def gate(thread: Thread, limits: Limits) -> Gate | None:
    """What a human has to decide after the last turn: may the candidate be run, is it accepted?

    A failed build needs no decision, nor does a human's own source before it is run. Where winners
    are confirmed, one is shown to the human after that, if it held.
    """
    if not thread or not asks(thread):
        return None
    match thread[-1].payload:
        case BuildReport() as report:
            return None if failed(report) or _by_human(thread, report.candidate) else "run"
        case Evaluation(confirms=confirmed):
            shown = confirmed or not limits.confirmations
            return "accept" if shown and _would_be_best(thread) else None
        case _:
            return None


def to_prove(thread: Thread, limits: Limits) -> str | None:
    """The candidate of the last turn, if it is to be confirmed before a human is asked about it."""
    last = thread[-1].payload
    if not limits.confirmations or not asks(thread) or not isinstance(last, Evaluation):
        return None
    return last.candidate if not last.confirms and _would_be_best(thread) else None


def to_confirm(thread: Thread, limits: Limits) -> str | None:
    """The candidate that has to be evaluated once more before the chat may end as it stands.

    The luckiest of many measurements wins a search: its figure is not the one to report.
    """
    made = 0
    for turn in reversed(thread):
        if not confirms(turn.payload):
            break
        made += 1
    found = best(thread)
    if found is None or found[0].confirms or made >= limits.confirmations:
        return None
    return found[0].candidate


def undecided(thread: Thread) -> Thread:
    """The thread without the human's decision at its end."""
    return thread[:-1] if thread and isinstance(thread[-1].payload, Approval) else thread


def _by_human(thread: Thread, candidate: str) -> bool:
    authors = [
        turn.speaker
        for turn in thread
        if isinstance(turn.payload, Kernel) and turn.payload.candidate == candidate
    ]
    return authors[-1:] == ["human"]


def _would_be_best(thread: Thread) -> bool:
    """Whether the last turn, an evaluation, finds a candidate faster than the best so far.

    A confirmation that the end of a search asked for is about one that was accepted before.
    """
    last = thread[-1].payload
    assert isinstance(last, Evaluation)
    timed = accepted(last)
    if timed is None or len(turns_of(thread, Evaluation)) == 1:
        return False
    if last.confirms and not confirms_last(thread):
        return False
    before = best(thread)
    return before is None or timed.ratio > before[1].ratio
