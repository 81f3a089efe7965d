"""A source as every role sees it: the same lines under the same numbers.

Whoever edits a user's file sees it as it is. Elsewhere a line that is a comment alone is shown as a
blank one, and one that is indented far a little less so. Every tenth line ends with its number, as
a comment: what is copied with it is still C++, or Python in a Triton source, whose indentation is
never changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from astra_chat.agents.idle_functions import Idle
from astra_chat.tools.language import COMMENTS, is_triton, language_of
from astra_chat.tools.text import fenced

STEP = 10
INDENT = 10
"""Most blanks before a line: more only show where a line above was broken."""
_FAR = re.compile(rf"^( {{{INDENT}}}) +(?=\S)", re.MULTILINE)


def listing(source: str, idle: Sequence[Idle] = (), *, comments: bool = False) -> str:
    """A fenced source with line numbers; in the place of `idle` lines one that names them."""
    lines: list[str | None] = [*_shown(source.rstrip("\n"), comments).split("\n")]
    for number in range(STEP, len(lines) + 1, STEP):
        lines[number - 1] = f"{lines[number - 1]} {_sign(source)}{number}"
    for one in idle:
        lines[one.first - 1 : one.last] = [None] * (one.last - one.first + 1)
        lines[one.first - 1] = one.text
    return fenced("\n".join(line for line in lines if line is not None))


def without_numbers(text: str, source: str = "") -> str:
    """What was copied from a listing of `source`, as it is there."""
    return re.sub(rf"[ \t]*{_sign(source)}\d+$", "", text, flags=re.MULTILINE)


def _sign(source: str) -> str:
    """What begins a comment in it."""
    return COMMENTS[language_of(source)]


def spans(text: str, source: str) -> list[tuple[int, int]]:
    """Where a text stands in a source: as it is, or else as a listing shows it or a model wrote it,
    so with other blanks within a line or at its ends, and without comments that are whole lines.
    """
    if text in source or not text.strip():
        return [match.span() for match in re.finditer(re.escape(text), source)] if text else []
    return [match.span() for match in re.finditer(_pattern(text, source), source, re.MULTILINE)]


def _pattern(text: str, source: str) -> str:
    """Finds a text whatever its indentation."""
    first, *others = without_numbers(text, source).split("\n")
    last = others.pop() if others else ""
    lines = [("^[ \t]*" if first[:1].isspace() and first.strip() else "") + _words(first)]
    lines += [f"[ \t]*{_words(line) or f'(?:{_sign(source)}.*)?'}" for line in others]
    if "\n" in text:
        lines.append(f"[ \t]*{_words(last)}" if last.strip() else "")
    return r"[ \t]*\r?\n".join(lines)


def _words(line: str) -> str:
    return r"[ \t]+".join(map(re.escape, line.split()))


def _shown(source: str, comments: bool) -> str:
    """Returns a source with the same lines, without what listings leave out."""
    if comments:
        return source
    plain = re.sub(rf"^[ \t]*{_sign(source)}.*$", "", source, flags=re.MULTILINE)
    return plain if is_triton(source) else _FAR.sub(r"\1", plain)
