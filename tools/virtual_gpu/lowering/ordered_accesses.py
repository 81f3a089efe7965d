"""Which loads and stores order something: the race checks let these meet others.

A volatile or relaxed access orders nothing by itself: a flag is of use to whoever looks at it until
it changes. In a kernel without a loop that looks, such accesses count as plain ones. In one with
such a loop, places whose value decides something are flags, and others are data behind flags.
"""

from __future__ import annotations

from collections.abc import Sequence

from astra_chat.tools.virtual_gpu.lowering.control_flow import BasicBlock, destinations, sources
from astra_chat.tools.virtual_gpu.lowering.unset_registers import read_at_end, watched_registers
from astra_chat.tools.virtual_gpu.ptx.syntax import (
    Instruction,
    Label,
    Statement,
    Symbol,
    registers_of,
)

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


def is_loose(instruction: Instruction, looks: bool) -> bool:
    """A load or store that is ordered only by what a kernel that `looks` makes of it."""
    return looks and is_ordered(instruction, True) and not is_ordered(instruction, False)


def deciding_loads(blocks: Sequence[BasicBlock]) -> frozenset[int]:
    """id() of each loose load of a kernel that looks whose value a predicate follows from: it looks
    at a flag."""
    body = [instruction for block in blocks for instruction in block.body]
    named = (r for i in body for operand in i.operands[:1] for r in registers_of(operand))
    predicates = {register.name for register in named if register.type == "pred"}
    return frozenset(
        id(instruction)
        for instruction in body
        if instruction.family == "ld" and is_loose(instruction, True)
        and predicates & watched_registers(blocks, destinations(instruction))
    )  # fmt: skip


def unread_sums(blocks: Sequence[BasicBlock]) -> frozenset[int]:
    """id() of each atomic addition whose result nothing reads: it adds to data, and looks at no
    flag."""
    body = [instruction for block in blocks for instruction in block.body]
    read = {name for instruction in body for name in sources(instruction)}
    read |= {name for block in blocks for name in read_at_end(block)}
    return frozenset(
        id(instruction)
        for instruction in body
        if instruction.family in ("atom", "red")
        and "add" in instruction.modifiers
        and not destinations(instruction) & read
    )


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
