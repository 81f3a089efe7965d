"""Which loads and stores order something: the race checks let these meet others.

A volatile or relaxed access orders nothing by itself: a flag is of use to whoever looks at it until
it changes. In a kernel without a loop that looks, such accesses count as plain ones; a loop that
only adds up what it finds does not look. In one with such a loop, places whose value decides
something are flags, and others are data behind flags.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_vgpu.lowering.control_flow import BasicBlock, destinations, sources
from astra_vgpu.lowering.unset_registers import read_at_end, watched_registers
from astra_vgpu.ptx.syntax import (
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
_LEAVES = frozenset("bra brx ret exit trap".split())
_PASSES_ON = frozenset("st red atom call".split())
"""Families that pass a value on to memory, or to a function, where it is followed no further."""


def looks_in_loops(body: Sequence[Statement]) -> bool:
    """Whether a loop of the kernel looks at what others store, or takes a lock."""
    return any(_looks(loop) for loop in _loops(body))


def is_ordered(instruction: Instruction, looks: bool) -> bool:
    """Whether a load or store orders something; looks: what looks_in_loops says of its kernel."""
    modifiers = _ORDERED | _LOOSE if looks else _ORDERED
    return not modifiers.isdisjoint(instruction.modifiers)


def is_loose(instruction: Instruction, looks: bool) -> bool:
    """Whether a load or store is ordered only because its kernel `looks`."""
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
        if instruction.family == "ld"
        and is_loose(instruction, True)
        and predicates & watched_registers(blocks, destinations(instruction))
    )


def unread_updates(blocks: Sequence[BasicBlock]) -> frozenset[int]:
    """id() of each atomic update whose result nothing reads: it changes data, and looks at no
    flag."""
    body = [instruction for block in blocks for instruction in block.body]
    read = {name for instruction in body for name in sources(instruction)}
    read |= {name for block in blocks for name in read_at_end(block)}
    return frozenset(
        id(instruction)
        for instruction in body
        if instruction.family in ("atom", "red") and not destinations(instruction) & read
    )


def _loops(body: Sequence[Statement]) -> Iterator[list[Instruction]]:
    """Instructions from a label to a branch back to it; all of them where a branch's target is not
    written at it."""
    labels = {s.name: at for at, s in enumerate(body) if isinstance(s, Label)}
    for at, statement in enumerate(body):
        if not isinstance(statement, Instruction) or statement.family not in ("bra", "brx"):
            continue
        start, end = 0, len(body)
        if statement.family == "bra":
            target = statement.operands[0] if statement.operands else None
            start = labels.get(target.name, at) if isinstance(target, Symbol) else 0
            end = at + 1
        if start < at:
            yield [inner for inner in body[start:end] if isinstance(inner, Instruction)]


def _looks(loop: Sequence[Instruction]) -> bool:
    """Whether a loop takes a lock, or where it goes on may depend on what it loads, loosely or with
    acquire."""
    if any(i.family == "atom" and not _TAKES.isdisjoint(i.modifiers) for i in loop):
        return True
    found = {
        name
        for instruction in loop
        if instruction.family == "ld" and not _LOOKS.isdisjoint(instruction.modifiers)
        for name in destinations(instruction)
    }
    before = 0
    while len(found) > before:
        before = len(found)
        for instruction in loop:
            if not found.isdisjoint(sources(instruction)):
                if instruction.family in _LEAVES | _PASSES_ON:
                    return True
                found |= destinations(instruction)
    return False
