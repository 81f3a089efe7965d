"""A run by rounds: each plan, the candidates written for it with what they changed, their results
and the analyses, each with the number of its turn. One pass over the turns."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from markupsafe import Markup

from astra_chat.agents.run_state import RunState, states
from astra_chat.agents.turns import Analysis, Approval, Kernel, Pass, Plan, Turn
from astra_chat.report.highlight import highlighted
from astra_chat.tools.descriptions import describe, describe_build, verdict
from astra_chat.tools.evaluation import BuildReport, Built, Evaluation
from astra_chat.tools.language import written_in
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Outcome, Timed

AROUND = 3
"""Equal lines shown before and after each change."""
Kind = Literal["same", "removed", "added", "gap"]


@dataclass(frozen=True)
class Row:
    """One line of the difference, or a gap in it."""

    kind: Kind
    number: int
    """The line's, in the old source where it was removed, else in the new one; of a gap the number
    of equal lines that it leaves out."""
    text: Markup = field(default_factory=Markup)


@dataclass(frozen=True)
class Diff:
    rows: tuple[Row, ...]
    added: int
    removed: int

    @property
    def counts(self) -> str:
        """Changed lines as the chat counts them: without blank ones."""
        kinds = [row.kind for row in self.rows if row.text.strip()]
        return f"+{kinds.count('added')} -{kinds.count('removed')} lines"


def difference(old: str, new: str) -> Diff:
    """What has to change in `old` to give `new`."""
    before, after = old.splitlines(), new.splitlines()
    left, right = highlighted("\n".join(before)), highlighted("\n".join(after))
    rows: list[Row] = []
    at = 0
    for group in difflib.SequenceMatcher(None, before, after).get_grouped_opcodes(AROUND):
        if skipped := group[0][1] - at:
            rows.append(Row("gap", skipped))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                rows += _rows("same", right, j1, j2)
            else:
                rows += [*_rows("removed", left, i1, i2), *_rows("added", right, j1, j2)]
        at = group[-1][2]
    if rows and at < len(before):
        rows.append(Row("gap", len(before) - at))
    kinds = [row.kind for row in rows]
    return Diff(tuple(rows), kinds.count("added"), kinds.count("removed"))


def _rows(kind: Kind, lines: list[Markup], first: int, end: int) -> Iterator[Row]:
    """Lines from `first` (from 0) to before `end` of a source."""
    return (Row(kind, n + 1, lines[n]) for n in range(first, end))


BASELINE = "the baseline"


@dataclass
class Candidate:
    """A candidate of a round, and what came of it."""

    name: str
    speaker: str
    words: str
    turn: int
    against: str
    """What it was derived from: a candidate, or the baseline."""
    diff: Diff
    first: bool
    """No earlier one has the same source."""
    build: BuildReport | None = None
    build_turn: int | None = None
    evaluation: Evaluation | None = None
    evaluation_turn: int | None = None
    confirmation: Evaluation | None = None
    confirmation_turn: int | None = None
    rejected: str | None = None
    """Why the human did not want it."""

    @property
    def outcome(self) -> Outcome | Built | None:
        """The last that is known of it in the search."""
        if self.evaluation is not None:
            return self.evaluation.outcome
        return self.build.result if self.build else None

    @property
    def verdict(self) -> str:
        """One word; "not judged" if the run ended before."""
        if self.evaluation is None and (self.build is None or self.build.result.kind == "built"):
            return "not judged"
        assert self.outcome is not None
        return verdict(self.outcome)

    @property
    def timed(self) -> Timed | None:
        outcome = self.outcome
        return outcome if isinstance(outcome, Timed) else None

    @property
    def result(self) -> str:
        """The outcome in words; "" before the judge said anything."""
        if self.evaluation is not None:
            return describe(self.evaluation.outcome)
        return describe_build(self.build) if self.build else ""


@dataclass
class Round:
    """A plan and what came of it."""

    number: int
    plan: Plan
    turn: int
    parent: str
    """The candidate that the plan changes, or the baseline."""
    candidates: list[Candidate] = field(default_factory=list)
    analyses: list[tuple[int, Analysis]] = field(default_factory=list)
    notes: list[tuple[int, str, str]] = field(default_factory=list)
    """Turn, speaker and words of those that passed, and of what a human decided."""


def rounds_of(
    turns: Sequence[Turn], baseline: str, numbers: Sequence[int] | None = None
) -> list[Round]:
    """`baseline`: its source, which plans without another parent change. `numbers`: of the turns,
    where they do not simply count up, because some are of a kind that this version does not know.
    """
    found: list[Round] = []
    counted = numbers or range(1, len(turns) + 1)
    for number, (before, turn) in zip(counted, _with_states(turns), strict=True):
        if isinstance(turn.payload, Plan):
            parent = before.next_parent[1]
            known = parent.candidate if parent and parent.candidate in before.sources else BASELINE
            found.append(Round(len(found) + 1, turn.payload, number, known))
        elif found:
            _add(found, turn, number, before, baseline)
    return found


def _with_states(turns: Sequence[Turn]) -> Iterator[tuple[RunState, Turn]]:
    """Each turn after the state that it was taken in."""
    return zip(states(turns), turns, strict=False)


def _add(found: list[Round], turn: Turn, number: int, before: RunState, baseline: str) -> None:
    """What a turn adds to the rounds so far."""
    last = found[-1]
    match turn.payload:
        case Kernel() as kernel:
            against, diff = _change(before, turn, kernel, baseline)
            name = kernel.candidate
            author = f"{turn.speaker}{written_in(kernel.source)}"
            first = all(one.name != name for each in found for one in each.candidates)
            last.candidates.append(
                Candidate(name, author, kernel.words, number, against, diff, first)
            )
        case BuildReport() as report:
            if (one := _latest(last.candidates, report.candidate)) is not None:
                one.build, one.build_turn = report, number
        case Evaluation() as evaluation:
            _judged(found, evaluation, number)
        case Tuning(words=words):
            last.notes.append((number, turn.speaker, f"tunes: {words}"))
        case Analysis() as analysis:
            last.analyses.append((number, analysis))
        case Pass(words=words):
            last.notes.append((number, turn.speaker, f"passes: {words}"))
        case Approval(decision=decision, reason=reason, candidate=candidate):
            said = f"{decision.replace('_', ' ')} {candidate}" + (f": {reason}" if reason else "")
            last.notes.append((number, turn.speaker, said))
            one = _latest(last.candidates, candidate)
            if decision == "reject" and one is not None:
                one.rejected = reason


def _judged(found: Sequence[Round], evaluation: Evaluation, number: int) -> None:
    """A winner is confirmed in a later round perhaps."""
    for one_round in reversed(found):
        one = _latest(one_round.candidates, evaluation.candidate)
        if one is None:
            continue
        if evaluation.confirms:
            one.confirmation, one.confirmation_turn = evaluation, number
        else:
            one.evaluation, one.evaluation_turn = evaluation, number
        return


def _latest(candidates: Sequence[Candidate], name: str) -> Candidate | None:
    return next((one for one in reversed(candidates) if one.name == name), None)


def _change(before: RunState, turn: Turn, kernel: Kernel, baseline: str) -> tuple[str, Diff]:
    parent = before.parent_of(turn.speaker)
    source = before.sources.get(parent)
    against, old = (BASELINE, baseline) if source is None else (parent, source)
    return against, difference(old, kernel.source)
