"""Mangled C++ names, as they stand in a cubin: the part that a reader knows.

Source: the Itanium C++ ABI, section 5.1 (mangling). Names come from a candidate's build, so nothing
here fails on a name that no compiler made.
"""

from __future__ import annotations

import re

_SCOPE = re.compile(r"_ZN?[VK]*L?(?=\d)")
_LENGTH = re.compile(r"L?(\d+)")


def kernel_name(mangled: str) -> str:
    """A function's own name, without scopes, template arguments and parameters: "silu" of
    _ZN4mine4siluI6__halfEEvPKT_; the name itself where it is not mangled."""
    start = _SCOPE.match(mangled)
    if start is None:
        return mangled
    at, name, nested = start.end(), mangled, mangled.startswith("_ZN")
    while length := _LENGTH.match(mangled, at):
        end = length.end() + int(length[1][:6])
        word = mangled[length.end() : end]
        if end > len(mangled) or not word.isidentifier():
            return mangled
        name, at = word, end
        if not nested:
            break
    return name
