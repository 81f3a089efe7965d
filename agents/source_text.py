"""A candidate's source as those see it who speak of it and do not change it: with line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from astra_chat.tools.policy.cpp_tokens import Token, tokens
from astra_chat.tools.text import fenced

_COMMENT = re.compile(r"^\s*//")
DEVICE = ("__global__", "__device__")


def without_comments(source: str) -> str:
    """A fenced source without lines that are blank or a comment alone."""
    lines = source.rstrip("\n").split("\n")
    return fenced("\n".join(line for line in lines if line.strip() and not _COMMENT.match(line)))


def numbered(source: str, lines: set[int] | None = None) -> str:
    """The same with the numbers of its lines, which are no part of it. `lines`: only these; "..."
    stands for what is left out."""
    shown: list[str] = []
    for number, line in enumerate(source.rstrip("\n").split("\n"), 1):
        bare = not line.strip() or _COMMENT.match(line)
        if not bare and (lines is None or number in lines):
            shown.append(f"{number} {line}")
        elif lines is not None and number not in lines and shown[-1:] != ["..."]:
            shown.append("...")
    return fenced("\n".join(shown))


def device_lines(source: str) -> set[int]:
    """Numbers of the lines of kernels and device functions; all where there are none.

    Explicit specializations are left out: they convert one dtype.
    """
    code = [token for token in tokens(source) if not token.directive]
    found: set[int] = set()
    for first, last in _bodies(code):
        found.update(range(code[first].line, code[last].line + 1))
    return found or set(range(1, source.count("\n") + 2))


def _bodies(code: list[Token]) -> Iterator[tuple[int, int]]:
    """First and last token of each definition that begins with a word of DEVICE."""
    at = 0
    while at < len(code):
        if code[at].text not in DEVICE:
            at += 1
            continue
        depth, end = 0, at
        while end < len(code) and (depth or code[end].text not in ("{", ";")):
            depth += (code[end].text in "([") - (code[end].text in ")]")
            end += 1
        special = [token.text for token in code[max(0, at - 3) : at]] == ["template", "<", ">"]
        if end < len(code) and code[end].text == "{":
            end = _closing(code, end)
            if not special:
                yield at, end
        at = end + 1


def _closing(code: list[Token], start: int) -> int:
    """The brace that closes the one at `start`; the last token where none does."""
    depth = 0
    for at in range(start, len(code)):
        depth += (code[at].text == "{") - (code[at].text == "}")
        if depth == 0:
            return at
    return len(code) - 1
