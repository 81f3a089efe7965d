"""What changed between two sources, line by line, with a few equal lines around it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from markupsafe import Markup

from astra_chat.report.highlight import highlighted

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
