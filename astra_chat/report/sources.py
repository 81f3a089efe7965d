"""What candidates changed: each source as a diff against what it was made of."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace

from astra_chat.agents.run_state import states
from astra_chat.agents.turns import Kernel, Turns

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


def changes(thread: Turns, baseline: str) -> list[Change]:
    """Of every kernel that was proposed, against what it was made of; then of the best one against
    the baseline, where it was made of another."""
    changed = []
    *before, state = states(thread)
    for then, turn in zip(before, thread, strict=True):
        if isinstance(turn.payload, Kernel):
            parent = then.parent_of(turn.speaker)
            source = then.sources.get(parent)
            against, old = (BASELINE, baseline) if source is None else (parent, source)
            lines = _diff(old, turn.payload.source)
            number = len(then.rounds)
            changed.append(Change(turn.payload.candidate, turn.speaker, number, against, lines))
    best = state.best[0].candidate if state.best else None
    whole = next((change for change in changed if change.candidate == best), None)
    if whole is not None and whole.against != BASELINE:
        lines = _diff(baseline, state.sources[whole.candidate])
        changed.append(replace(whole, against=BASELINE, lines=lines))
    return changed


def _diff(old: str, new: str) -> Lines:
    diff = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="")
    return tuple((KINDS.get(line[:1], ""), line) for line in list(diff)[2:])
