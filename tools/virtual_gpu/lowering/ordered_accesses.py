"""Which loads and stores order something: the race checks let these meet others.

A volatile or relaxed access orders nothing by itself: a flag is of use to whoever looks at it until
it changes. In a kernel without a loop that looks, such accesses count as plain ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from astra_chat.tools.virtual_gpu.ptx.syntax import Instruction, Label, Statement, Symbol

_LOOSE = frozenset({"volatile", "relaxed"})
_ORDERED = frozenset({"acquire", "release", "acq_rel"})
_LOOKS = frozenset({"volatile", "relaxed", "acquire"})
_TAKES = frozenset({"cas", "exch"})


def looks_in_loops(body: Sequence[Statement]) -> bool:
    """Whether a loop of the kernel looks at what others store, or takes a lock."""
    return any(_looks(instruction) for instruction in _looped(body))


def is_ordered(instruction: Instruction, looks: bool) -> bool:
    """Of a load or store of a kernel that `looks_in_loops`, or does not."""
    modifiers = _ORDERED | _LOOSE if looks else _ORDERED
    return not modifiers.isdisjoint(instruction.modifiers)


def _looped(body: Sequence[Statement]) -> list[Instruction]:
    """Instructions between a label and a branch back to it; all of them where a branch's target is
    not written at it."""
    labels = {s.name: at for at, s in enumerate(body) if isinstance(s, Label)}
    inside: set[int] = set()
    for at, statement in enumerate(body):
        if not isinstance(statement, Instruction):
            continue
        if statement.family == "brx":
            inside.update(range(len(body)))
        elif statement.family == "bra":
            target = statement.operands[0] if statement.operands else None
            start = labels.get(target.name, at) if isinstance(target, Symbol) else 0
            inside.update(range(start, at))
    found = (body[at] for at in inside)
    return [statement for statement in found if isinstance(statement, Instruction)]


def _looks(instruction: Instruction) -> bool:
    modifiers = set(instruction.modifiers)
    if instruction.family == "atom":
        return bool(modifiers & _TAKES)
    return instruction.family == "ld" and bool(modifiers & _LOOKS)
