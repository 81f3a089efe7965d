"""A source as every role sees it: the same lines under the same numbers.

A line that is a comment alone is shown as a blank one. Every tenth line ends with its number, as a
comment: what is copied with it is still C++.
"""

from __future__ import annotations

import re

from astra_chat.tools.text import fenced

STEP = 10
_COMMENT = re.compile(r"^[ \t]*//.*$", re.MULTILINE)
_NUMBER = re.compile(r"[ \t]*//\d+$", re.MULTILINE)


def listing(source: str) -> str:
    """A fenced source with line numbers."""
    lines = _COMMENT.sub("", source.rstrip("\n")).split("\n")
    for number in range(STEP, len(lines) + 1, STEP):
        lines[number - 1] += f" //{number}"
    return fenced("\n".join(lines))


def without_numbers(text: str) -> str:
    """What was copied from a listing, as it is in the source."""
    return _NUMBER.sub("", text)


def spans(text: str, source: str) -> list[tuple[int, int]]:
    """Where a text stands in a source: as it is, or else as a listing shows it."""
    if text in source or not text.strip():
        return [match.span() for match in re.finditer(re.escape(text), source)] if text else []
    shown, begins = _COMMENT.sub("", source), _line_starts(source)
    starts = _line_starts(shown)
    found = []
    for match in re.finditer(re.escape(without_numbers(text)), shown):
        places = [(shown.count("\n", 0, at), at) for at in match.span()]
        found.append([begins[line] + at - starts[line] for line, at in places])
    return [(start, end) for start, end in found]


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]
