"""Mangled C++ names, as they stand in an object: the part that a reader knows.

Source: the Itanium C++ ABI, section 5.1 (mangling). Names come from a candidate's build, so nothing
here fails on a name that no compiler made.
"""

from __future__ import annotations

import re

MAX_DIGITS = 6
"""Most digits of an identifier's length; Python does not even read numbers of more than 4,300."""
_SCOPE = re.compile(r"_ZN?[VK]*L?(?=\d)")
_LENGTH = re.compile(r"L?(\d+)")
_LITERAL, _NUMBER = re.compile(r"L[a-z]n?\d+E"), re.compile(r"\d+")
"""A number that is a template's argument, and the length of an identifier."""


def kernel_name(mangled: str) -> str:
    """A function's own name, without scopes, template arguments and parameters: "silu" of
    _ZN4mine4siluI6__halfEEvPKT_; the name itself where it is not mangled."""
    return (_scoped(mangled) or [mangled])[-1]


def scoped_name(mangled: str) -> str:
    """A function's name with its scopes: "mine::silu"; "" where it is not mangled."""
    return "::".join(_scoped(mangled))


def _scoped(mangled: str) -> list[str]:
    """Scopes and name; nothing where no compiler made it."""
    start = _SCOPE.match(mangled)
    if start is None:
        return []
    at, found, nested = start.end(), list[str](), mangled.startswith("_ZN")
    while length := _LENGTH.match(mangled, at):
        end = length.end() + int(length[1][:MAX_DIGITS])
        word = mangled[length.end() : end]
        if end > len(mangled) or not word.isidentifier():
            return []
        found.append(word)
        at = end
        if not nested:
            break
    return found


def last_identifier(name: str) -> str:
    """The last identifier of a mangled name: "calls" of _ZZ12silu_and_mulE5calls."""
    last, at = name, 2
    if not name.startswith("_Z") or re.match(r"_ZN?K?St", name):
        return name
    while at < len(name):
        literal = _LITERAL.match(name, at)
        number = None if literal else _NUMBER.match(name, at)
        at = literal.end() if literal else number.end() if number else at + 1
        length = int(number[0]) if number and len(number[0]) <= MAX_DIGITS else 0
        word = name[at : at + length]
        if word.isidentifier():
            last, at = word, at + len(word)
    return last
