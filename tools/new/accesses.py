"""What a place in code does with an element of a pointer: reads, writes or changes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from astra_chat.tools.new.brackets import partner
from astra_chat.tools.new.source import spaced

POINTER_METHODS = re.compile(r"(mutable_|const_)?data(_ptr)?|value")
_QUALIFIERS = re.compile(r"\b(const|volatile|__restrict__|__restrict|struct|typename)\b|[*&\[\]]")


@dataclass
class Uses:
    """What is known of a pointer."""

    reads: bool = False
    writes: bool = False
    unclear: set[str] = field(default_factory=set)
    """Functions that get it and that the files do not define."""
    elements: list[str] = field(default_factory=list)
    """C types of its elements as the places name them, the first one first."""
    parameters: list[tuple[str, str]] = field(default_factory=list)
    """Functions and their parameters that it is given to, the first one first."""

    def add(self, other: Uses) -> None:
        self.reads |= other.reads
        self.writes |= other.writes
        self.unclear |= other.unclear
        self.elements += [e for e in other.elements if e not in self.elements]
        self.parameters += [p for p in other.parameters if p not in self.parameters]


def element(declared: str) -> str:
    """The type of what a pointer points to: "const int64_t * __restrict__" is "int64_t"."""
    return " ".join(_QUALIFIERS.sub(" ", declared).split())


def data_of(uses: Uses, texts: Sequence[str], index: int) -> tuple[int, int]:
    """The name with the calls that give its pointer: x.data_ptr<float>(); -1 for other members."""
    end = index + 1
    while texts[end] in (".", "->"):
        method = texts[end + 1]
        if not POINTER_METHODS.fullmatch(method):
            return -1, end
        end += 2
        if texts[end] == "<":
            close = texts.index(">", end)
            uses.elements.append(element(spaced(texts[end + 1 : close])))
            end = close + 1
        if texts[end] == "(":
            end = partner(texts, end) + 1
    return index, end


def record_access(uses: Uses, texts: Sequence[str], start: int, end: int) -> None:
    """Record whether an element is assigned, changed or read."""
    after = list(texts[end : end + 3])
    before = list(texts[max(0, start - 2) : start])
    stepped = ["+", "+"], ["-", "-"]
    if after[:1] == ["="] and after[1:2] != ["="]:
        uses.writes = True
    elif (after[:1] and after[0] in "+-*/%&|^" and after[1:2] == ["="]) or (
        after[:2] in stepped or before in stepped
    ):
        uses.reads = uses.writes = True
    else:
        uses.reads = True


def after_fields(texts: Sequence[str], end: int) -> int:
    """Past members and further subscripts of an element."""
    while texts[end] in (".", "->", "["):
        end = partner(texts, end) + 1 if texts[end] == "[" else end + 2
    return end


def is_unary(texts: Sequence[str], at: int) -> bool:
    before = texts[at - 1]
    return before in ("return",) or not re.fullmatch(r"\w+|\)|\]", before)
