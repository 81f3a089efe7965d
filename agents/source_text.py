"""A source as every role sees it: the same lines under the same numbers.

A line that is a comment alone is shown as a blank one, except to whoever edits a user's file, and
one that is indented far a little less so. Every tenth line ends with its number, as a comment: what
is copied with it is still C++.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from astra_chat.agents.idle_functions import Idle
from astra_chat.tools.text import fenced

STEP = 10
INDENT = 10
"""Most blanks before a line: more only show where a line above was broken."""
_FAR = re.compile(rf"^( {{{INDENT}}}) +(?=\S)", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*//.*$", re.MULTILINE)
_NUMBER = re.compile(r"[ \t]*//\d+$", re.MULTILINE)


def listing(source: str, idle: Sequence[Idle] = (), *, comments: bool = False) -> str:
    """A fenced source with line numbers; in the place of `idle` lines one that names them."""
    lines: list[str | None] = [*_shown(source.rstrip("\n"), comments).split("\n")]
    for number in range(STEP, len(lines) + 1, STEP):
        lines[number - 1] = f"{lines[number - 1]} //{number}"
    for one in idle:
        lines[one.first - 1 : one.last] = [None] * (one.last - one.first + 1)
        lines[one.first - 1] = one.text
    return fenced("\n".join(line for line in lines if line is not None))


def without_numbers(text: str) -> str:
    """What was copied from a listing, as it is in the source."""
    return _NUMBER.sub("", text)


def spans(text: str, source: str) -> list[tuple[int, int]]:
    """Where a text stands in a source: as it is, or else as a listing shows it."""
    if text in source or not text.strip():
        return [match.span() for match in re.finditer(re.escape(text), source)] if text else []
    wanted, found = re.escape(without_numbers(text)), list[tuple[int, int]]()
    for shown in (_shown(source, comments) for comments in (True, False)):
        found = found or [
            (_in_source(match.start(), shown, source), _in_source(match.end(), shown, source))
            for match in re.finditer(wanted, shown)
        ]
    return found


def _shown(source: str, comments: bool) -> str:
    """Returns a source with the same lines, without what listings leave out."""
    return _FAR.sub(r"\1", source if comments else _COMMENT.sub("", source))


def _in_source(at: int, shown: str, source: str) -> int:
    """Returns a place in what is shown as one in the source."""
    line = shown.count("\n", 0, at)
    column, start = at - _line_starts(shown)[line], _line_starts(source)[line]
    far = _FAR.match(source, start)
    left_out = far.end() - start - INDENT if far and column >= INDENT else 0
    return start + column + left_out


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]
