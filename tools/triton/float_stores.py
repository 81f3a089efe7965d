"""Stores of floats to shared memory say so again: LLVM's newer PTX writes all of them as bits.

Triton lets warps that hold the same elements store the same result to one place, which is no race.
NaNs have many bit patterns, of which a GPU computes only one; a check for races that is to compare
them as floats has to know that they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_DEFINED = re.compile(r"^(?:@!?%\w+ )?(?P<name>[a-z][\w.]*) (?P<to>%\w+|\{[^}]*\})(?P<rest>.*)")
_STORED = re.compile(r"^((?:@!?%\w+ )?st\.shared(?:\.v[24])?)\.b32 (\[[^]]*\], )(.*);$")
_FLOAT = re.compile(r"(?!setp|cvt|testp)[\w.]*\.f32|cvt[\w.]*\.f32\.\w+")
_COPIES = {"mov.b32": 1, "selp.b32": 2, "shfl.sync": 1}
"""Instructions that pass on their first operands as they are, and of how many."""
_REGISTER = re.compile(r"%\w+")


def with_float_stores(lines: Sequence[str]) -> list[str]:
    """Lines of a kernel's PTX, in which 32-bit stores to shared memory of registers that only hold
    float32 have that type."""
    floats = _floats(lines)
    written = []
    for line in lines:
        found = _STORED.match(line)
        stored = _REGISTER.findall(found[3]) if found else []
        if found and stored and floats.issuperset(stored):
            line = f"{found[1]}.f32 {found[2]}{found[3]};"
        written.append(line)
    return written


def _floats(lines: Sequence[str]) -> set[str]:
    """Registers that every instruction which sets them sets to a float32."""
    floats, others, copies = set[str](), set[str](), list[tuple[str, list[str]]]()
    for line in lines:
        if (found := _DEFINED.match(line)) is None:
            continue
        copied = next((n for name, n in _COPIES.items() if found["name"].startswith(name)), 0)
        sources = _REGISTER.findall(found["rest"])[:copied]
        for to in _REGISTER.findall(found["to"]):
            if _FLOAT.fullmatch(found["name"]):
                floats.add(to)
            elif copied and sources and "{" not in line:
                copies.append((to, sources))
            else:
                others.add(to)
    floats.update(to for to, _ in copies)
    floats -= others
    while lost := {to for to, some in copies if to in floats and not floats.issuperset(some)}:
        floats -= lost
    return floats
