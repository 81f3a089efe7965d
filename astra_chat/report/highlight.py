"""CUDA sources as lines of HTML with syntax colours, by Pygments.

A line is coloured once for all sources that have it: candidates of a run share most of theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from markupsafe import Markup, escape
from pygments.lexers.c_cpp import CppLexer
from pygments.lexers.c_like import CudaLexer
from pygments.token import STANDARD_TYPES, Comment, _TokenType

from astra_chat.tools.text import plain

LONGEST = 2_000
"""Characters of a line that is coloured; a longer one is shown without colours."""
MARKS = re.compile(r'//|/\*|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')
"""What begins a comment, or hides one."""


def highlighted(source: str) -> list[Markup]:
    """Every line of a source; what others wrote is escaped, and unseen characters spelt out."""
    found, inside = [], False
    for line in plain(source).split("\n"):
        markup, inside = _line(line, inside)
        found.append(markup)
    return found


@lru_cache(maxsize=20_000)
def _line(line: str, inside: bool) -> tuple[Markup, bool]:
    """One line, and whether a comment goes on behind it. `inside`: it begins in a comment."""
    if not inside:
        return _colored(line), _left_open(line)
    end = line.find("*/")
    if end < 0:
        return _span(Comment.Multiline, line), True
    rest = line[end + 2 :]
    return _span(Comment.Multiline, line[: end + 2]) + _colored(rest), _left_open(rest)


def _left_open(line: str) -> bool:
    """Whether a comment of several lines begins here and does not end."""
    at = 0
    while (mark := MARKS.search(line, at)) is not None:
        if mark[0] == "//":
            return False
        at = mark.end()
        if mark[0] == "/*":
            end = line.find("*/", at)
            if end < 0:
                return True
            at = end + 2
    return False


def _colored(line: str) -> Markup:
    if len(line) > LONGEST:
        return escape(line)
    return Markup("").join(_spans(line))


def _spans(line: str) -> Iterator[Markup]:
    indent = len(line) - len(line.lstrip())
    yield escape(line[:indent])
    for _, kind, text in _LEXER.get_tokens_unprocessed(f"{line[indent:]}\n"):
        yield _span(kind, text.removesuffix("\n"))


def _span(kind: _TokenType, text: str) -> Markup:
    while kind not in STANDARD_TYPES and kind.parent is not None:
        kind = kind.parent
    name = STANDARD_TYPES.get(kind, "")
    marked = name and not text.isspace() and text
    return Markup('<span class="{}">{}</span>').format(name, text) if marked else escape(text)


_LEXER: CppLexer = CudaLexer()
