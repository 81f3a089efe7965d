"""Two sources side by side, line by line: what changed, with a few lines around it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from astra_chat.report.highlight import highlighted

AROUND = 3
"""Equal lines shown before and after each change."""
Kind = Literal["same", "changed", "removed", "added", "gap"]


@dataclass(frozen=True)
class Row:
    """One row of the two columns; a number is None where that side has no line."""

    kind: Kind
    old_number: int | None = None
    old: Markup | None = None
    new_number: int | None = None
    new: Markup | None = None
    skipped: int = 0
    """Equal lines that a gap leaves out; 0 in other rows."""


@dataclass(frozen=True)
class Diff:
    rows: tuple[Row, ...]
    added: int
    removed: int

    @property
    def counts(self) -> str:
        return f"+{self.added} -{self.removed} lines"


def side_by_side(old: str, new: str) -> Diff:
    """What has to change in `old` to give `new`."""
    before, after = old.splitlines(), new.splitlines()
    left, right = highlighted("\n".join(before)), highlighted("\n".join(after))
    matcher = difflib.SequenceMatcher(None, before, after)
    rows: list[Row] = []
    added = removed = at = 0
    for group in matcher.get_grouped_opcodes(AROUND):
        if skipped := group[0][1] - at:
            rows.append(Row("gap", skipped=skipped))
        for tag, i1, i2, j1, j2 in group:
            rows += _rows(left[i1:i2], right[j1:j2], i1, j1, tag == "equal")
            added += 0 if tag == "equal" else j2 - j1
            removed += 0 if tag == "equal" else i2 - i1
        at = group[-1][2]
    if rows and at < len(before):
        rows.append(Row("gap", skipped=len(before) - at))
    return Diff(tuple(rows), added, removed)


def _rows(old: list[Markup], new: list[Markup], i: int, j: int, same: bool) -> list[Row]:
    """Lines of one opcode, the first `i` and `j` of their sources (from 0), beside each other."""
    found = []
    for k in range(max(len(old), len(new))):
        has_old, has_new = k < len(old), k < len(new)
        both: Kind = "same" if same else "changed"
        kind: Kind = both if has_old and has_new else "removed" if has_old else "added"
        found.append(
            Row(
                kind,
                i + k + 1 if has_old else None,
                old[k] if has_old else None,
                j + k + 1 if has_new else None,
                new[k] if has_new else None,
            )
        )
    return found
