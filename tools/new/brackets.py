"""Brackets and calls in a list of C++ tokens as text."""

from __future__ import annotations

import re
from collections.abc import Sequence

OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")": "(", "]": "[", "}": "{"}
CASTS = re.compile(r"(static|reinterpret|const)_cast")
NO_CALLS = ("if", "while", "for", "switch", "return", "sizeof", "else", "decltype", "assert")


def partner(texts: Sequence[str], at: int) -> int:
    """Index of the bracket that belongs to the one at `at`; the last index if there is none."""
    opening = texts[at] in OPEN
    step, deep = (1 if opening else -1), 0
    index = at
    while 0 <= index < len(texts):
        deep += (texts[index] in OPEN) - (texts[index] in CLOSE)
        if deep == 0:
            return index
        index += step
    return len(texts) - 1


def enclosing(texts: Sequence[str], at: int) -> int:
    """Index of the bracket that is open before `at`; -1 at the end of the statement."""
    index = at - 1
    while index >= 0:
        if texts[index] in CLOSE:
            index = partner(texts, index)
        elif texts[index] in OPEN:
            return index
        elif texts[index] == ";":
            return -1
        index -= 1
    return -1


def call_at(texts: Sequence[str], opened: int) -> tuple[int, int] | None:
    """Where the name of a call stands, and where it ends; None where a bracket is no call."""
    at = opened - 1
    if texts[at] == ">>>":
        at = next((i for i in range(at, -1, -1) if texts[i] == "<<<"), 0) - 1
    if texts[at] == ">":
        deep = 0
        for index in range(at, -1, -1):
            deep += (texts[index] == ">") - (texts[index] == "<")
            if deep == 0:
                at = index - 1
                break
    named = re.fullmatch(r"[A-Za-z_]\w*", texts[at]) and texts[at] not in NO_CALLS
    return (at, opened) if named else None


def argument_at(texts: Sequence[str], opened: int, at: int) -> int:
    """Number of the argument that stands at `at`: commas inside brackets do not count."""
    number, index = 0, opened + 1
    while index < at:
        if texts[index] in OPEN:
            index = partner(texts, index)
        elif texts[index] == "<" and CASTS.fullmatch(texts[index - 1]):
            index = next((i for i in range(index, at) if texts[i] == ">"), index)
        number += texts[index] == ","
        index += 1
    return number
