"""PTX text to tokens."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<string>"[^"\n]*")
  | (?P<number>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
      |(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|0[0-7]*U?|\d+U?)
  | (?P<directive>\.[A-Za-z_][\w$]*)
  | (?P<name>(?:%[\w$]+|[$_A-Za-z][\w$]*)(?:(?:\.|::)[\w$]+)*)
  | (?P<punct><<|>>|<=|>=|==|!=|&&|\|\||[][{}(),;:=+\-@!|<>*~/%&^?])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class PtxSyntaxError(ValueError):
    """The text is not PTX in the form that nvcc writes; the message says what and at which line."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    """string, number, directive, name, punct, or end."""
    text: str
    line: int
    at: int
    """Offset in the text."""


def tokenize(text: str) -> list[Token]:
    """All tokens and a final one of kind `end`. Raises PtxSyntaxError on any other character, and
    on one outside ASCII, which ptxas does not take in comments either.

    `.reg.b16` is two directives; the modifiers of an opcode belong to its name, `::` included.
    """
    newlines = [match.start() for match in re.finditer("\n", text)]
    tokens: list[Token] = []
    if foreign := re.search(r"[^\x00-\x7f]", text):
        line = bisect.bisect_left(newlines, foreign.start()) + 1
        raise PtxSyntaxError(f"line {line}: {foreign.group()!r} is not ASCII")
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            line = bisect.bisect_left(newlines, at) + 1
            raise PtxSyntaxError(f"line {line}: {text[at : at + 20]!r} is not PTX")
        kind = match.lastgroup or ""
        if kind != "skip":
            line = bisect.bisect_left(newlines, at) + 1
            tokens.append(Token(kind, match.group(), line, at))
        at = match.end()
    tokens.append(Token("end", "", len(newlines) + 1, len(text)))
    return tokens
