"""The text that a compiler gets: written from the tokens that the guard has read.

A compiler and the guard could read one source differently: where a literal ends, what a comment
hides, which blank is a blank. So the source itself is never compiled. Its tokens are written again:

- Comments become blanks. Each line keeps its number, and as far as no blank is added its columns,
  so that errors, line tables and profiles name the author's lines.
- Two tokens that touch in the source are separated by a blank wherever another reader could join
  them: beside literals, and where a digraph stood.
- All else that touches goes on doing so, as #define F(x) and what the # operator makes of an
  argument (the text of an assertion) depend on it. There every reader must end the first token:
  neither a name nor a number holds punctuation in this place (the lexer would have taken it in),
  and of a run of punctuation only a comment or a literal could be more than punctuation.

What is written reads as the same tokens, and is written as itself again.
"""

from __future__ import annotations

import re
from functools import lru_cache

from astra_chat.tools.cpp_tokens import Lexer, WrittenToken

MOST_SAID = 20
_GAP = re.compile(r"(?P<blank>[ \t\r]+)|(?P<block>/\*.*?\*/)|//[^\n]*|\n", re.DOTALL)
_SPLICE = re.compile(r"\\[ \t\f\v]*\r?\n")
_SPLICED = "\\\n"
_TRAILING = re.compile(r"[ \t]+\n")
_NO_MESSAGE = re.compile(r"[^\w .,:;=()-]", re.ASCII)
"""What could open a literal or a comment in the text of an #error."""


class Unreadable(ValueError):
    """The source cannot be read as C++ in one way only; the text says where and why."""


@lru_cache(maxsize=64)
def built_text(source: str) -> str:
    """The source as its compiler gets it. Raises Unreadable; the guard refuses such a source."""
    lexer = Lexer(source)
    if bad := [token for token in lexer.run() if token.kind == "bad"]:
        raise Unreadable("\n".join(f"line {token.line}: {token.text}" for token in bad[:MOST_SAID]))
    return _Writer(lexer).text()


def header_text(text: str) -> str:
    """A header of a task as a compiler gets it. What cannot be read in one way is left as it is: no
    candidate writes it."""
    try:
        return built_text(text)
    except Unreadable:
        return text


class _Writer:
    """Writes a lexer's pieces, and between two of them what the gap in the source becomes."""

    def __init__(self, lexer: Lexer) -> None:
        self._source, self._spliced, self._origin = lexer.source, lexer.text, lexer.origin
        self._pieces = lexer.pieces

    def text(self) -> str:
        written: list[str] = []
        before: WrittenToken | None = None
        for piece in self._pieces:
            spelt = _spelt(piece)
            written += [self._gap(before, piece), spelt]
            start, end = self._origin[piece.start], self._behind(piece.end)
            if end - start != piece.end - piece.start:  # there are splices in it
                lines = self._source.count("\n", start, end) - spelt.count("\n")
                written.append(_SPLICED * lines)
            before = piece
        written.append(self._gap(before, None).rstrip())
        return "".join(written).rstrip("\n") + "\n"

    def _behind(self, end: int) -> int:
        """Index in the source behind the last character of a piece that ends at `end`."""
        return self._origin[end - 1] + 1 if end else 0

    def _gap(self, before: WrittenToken | None, after: WrittenToken | None) -> str:
        """Blanks, line ends and, where tokens of one logical line stand on two, splices."""
        start, end = before.end if before else 0, after.start if after else len(self._spliced)
        if start == end:
            joint = " " if before and after and _joins(before, after) else ""
            return self._rest(start, after) + joint
        plain = self._source[self._behind(start) : self._origin[after.start]] if after else ""
        if plain and not plain.strip(" \t"):
            return plain
        parts = list(_GAP.finditer(self._spliced, start, end))
        breaks = [at for at, part in enumerate(parts) if part[0] == "\n"]
        first, last = (breaks[0], breaks[-1]) if breaks else (len(parts), -1)
        texts: list[str] = []
        cursor = self._behind(start)
        for at, part in enumerate(parts):
            reached = self._behind(part.end())
            inside = before is not None and at < first and after is not None and at > last
            texts.append(_written(part, self._source[cursor:reached], inside))
            cursor = reached
        return _TRAILING.sub("\n", "".join(texts)) + self._rest(end, after)

    def _rest(self, end: int, after: WrittenToken | None) -> str:
        """The splices right before a piece."""
        if after is None:
            return ""
        return _SPLICED * self._source.count("\n", self._behind(end), self._origin[after.start])


def _written(part: re.Match[str], source: str, inside: bool) -> str:
    """What a blank, a comment or a line end becomes, whose text in the source is `source`, with the
    splices before it. `inside`: tokens of the same logical line stand before and behind it."""
    if part["blank"] is not None:
        return _SPLICE.sub(lambda _: _SPLICED, source).replace("\r", "")
    if part["block"] is not None:
        lines = (" " * len(line.encode()) for line in source.split("\n"))
        return (_SPLICED if inside else "\n").join(lines)
    return "\n" * source.count("\n")


def _spelt(piece: WrittenToken) -> str:
    if piece.kind == "string":
        return piece.text.replace("\r\n", "\n")
    return _NO_MESSAGE.sub(" ", piece.text) if piece.kind == "text" else piece.text


def _joins(before: WrittenToken, after: WrittenToken) -> bool:
    """Whether a reader could take two tokens that touch for others."""
    if any(p.kind == "punct" and len(p.text) < p.end - p.start for p in (before, after)):
        return True  # a digraph, which is written as what it stands for
    if before.kind == "punct":
        return (before.text, after.text[0]) == (".", ".") and after.kind == "number"
    return after.kind != "punct"
