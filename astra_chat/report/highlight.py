"""CUDA and Triton sources as lines of HTML with syntax colours, by Pygments.

A line is coloured once for all sources that have it: candidates of a run share most of theirs. Only
what has a colour of its own is marked, by a short element: sources are most of a page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from markupsafe import Markup, escape
from pygments.lexer import RegexLexer
from pygments.lexers.c_cpp import CppLexer
from pygments.lexers.c_like import CudaLexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType

from astra_chat.tools.language import is_triton
from astra_chat.tools.text import plain

LONGEST = 2_000
"""Characters of a line that is coloured; a longer one is shown without colours."""
COLORS: tuple[tuple[_TokenType, str], ...] = (
    (Comment.Preproc, "k"),
    (Comment.PreprocFile, "k"),
    (Comment, "c"),
    (Keyword, "k"),
    (String, "s"),
    (Number, "m"),
    (Name.Function, "n"),
    (Name.Class, "n"),
    (Name.Builtin, "n"),
    (Name.Namespace, "n"),
)
"""Kinds of tokens and their classes in the style sheet; the first that fits counts."""
MARKS = re.compile(r'//|/\*|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')
"""What begins a comment, or hides one."""


def highlighted(source: str) -> list[Markup]:
    """Every line of a source; what others wrote is escaped, and unseen characters spelt out."""
    found, inside = [], False
    if is_triton(source):
        return [_colored(line, _PYTHON) for line in plain(source).split("\n")]
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
        return _span("c", line), True
    rest = line[end + 2 :]
    return _span("c", line[: end + 2]) + _colored(rest), _left_open(rest)


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


def _colored(line: str, lexer: RegexLexer | None = None) -> Markup:
    if len(line) > LONGEST:
        return escape(line)
    return Markup("").join(_spans(line, lexer or _LEXER))


def _spans(line: str, lexer: RegexLexer) -> Iterator[Markup]:
    """Neighbours of one colour are in one element."""
    indent = len(line) - len(line.lstrip())
    yield escape(line[:indent])
    tokens = lexer.get_tokens_unprocessed(f"{line[indent:]}\n")
    for kind, texts in groupby(((_color(k), s.removesuffix("\n")) for _, k, s in tokens), _first):
        yield _span(kind, "".join(text for _, text in texts))


def _color(kind: _TokenType) -> str:
    """The class of a token's colour; "" for one without."""
    return next((name for one, name in COLORS if kind in one), "")


def _span(color: str, text: str) -> Markup:
    if not color or not text or text.isspace():
        return escape(text)
    return Markup("<i class={}>{}</i>").format(color, text)


_first = itemgetter(0)
_LEXER: CppLexer = CudaLexer()
_PYTHON: RegexLexer = PythonLexer()
