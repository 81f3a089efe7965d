"""What candidates changed: each source as a diff against what it was made of."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from astra_chat.agents import run_state, search_state
from astra_chat.agents.run_state import Thread
from astra_chat.agents.turns import Kernel, Plan

KINDS = {"+": "add", "-": "del", "@": "at"}
BASELINE = "the baseline"
Lines = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Change:
    """A candidate beside another source."""

    candidate: str
    speaker: str
    """Who wrote it."""
    round: int
    against: str
    """A candidate, or the baseline."""
    lines: Lines
    """Of a unified diff without its head, each with its kind: add, del, at, or none."""

    @property
    def counts(self) -> str:
        kinds = [kind for kind, _ in self.lines]
        return f"+{kinds.count('add')} -{kinds.count('del')} lines"


def changes(thread: Thread, baseline: str) -> list[Change]:
    """Of every kernel that was proposed, against what it was made of; then of the best one against
    the baseline, where it was made of another."""
    found, number = [], 0
    for index, turn in enumerate(thread):
        number += isinstance(turn.payload, Plan)
        if isinstance(turn.payload, Kernel):
            before = search_state.made_of(thread[:index], turn.speaker)
            source = run_state.source_of(thread[:index], before)
            against, old = (BASELINE, baseline) if source is None else (before, source)
            found.append(_change(turn.payload, turn.speaker, number, against, old))
    best = run_state.best(thread)
    whole = next((c for c in found if best and c.candidate == best[0].candidate), None)
    if whole is not None and whole.against != BASELINE:
        kernel = next(
            k for k in run_state.turns_of(thread, Kernel) if k.candidate == whole.candidate
        )
        found.append(_change(kernel, whole.speaker, whole.round, BASELINE, baseline))
    return found


def _change(kernel: Kernel, speaker: str, number: int, against: str, old: str) -> Change:
    diff = difflib.unified_diff(old.splitlines(), kernel.source.splitlines(), lineterm="")
    lines = tuple((KINDS.get(line[:1], ""), line) for line in list(diff)[2:])
    return Change(kernel.candidate, speaker, number, against, lines)
