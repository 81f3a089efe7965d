"""Which instructions wait for other threads: loads that poll, and atomics that take a lock."""

from __future__ import annotations

from collections.abc import Callable

from astra_vgpu.lowering.inline import FlatKernel
from astra_vgpu.ptx.syntax import (
    Immediate,
    Instruction,
    Label,
    Operand,
    Register,
    Symbol,
    registers_of,
)


def looped(flat: FlatKernel, chosen: Callable[[Instruction], bool]) -> frozenset[int]:
    """Ids of such instructions between a label and a branch back to it."""
    labels = {s.name: at for at, s in enumerate(flat.body) if isinstance(s, Label)}
    loops: set[int] = set()
    for at, statement in enumerate(flat.body):
        if isinstance(statement, Instruction) and statement.family == "bra":
            to = statement.operands[0] if statement.operands else None
            start = labels.get(to.name, at) if isinstance(to, Symbol) else at
            loops.update(range(start, at))
    inside = (flat.body[at] for at in loops)
    return frozenset(id(s) for s in inside if isinstance(s, Instruction) and chosen(s))


def is_polling_load(instruction: Instruction) -> bool:
    """It is to see what another block stores in the meantime, as a loop that waits makes it."""
    spaces = {m.partition("::")[0] for m in instruction.modifiers}
    if spaces & {"shared", "local"}:
        return False
    if instruction.family == "atom":
        return bool(spaces & {"cas", "exch"})
    return instruction.family == "ld" and bool(spaces & {"volatile", "relaxed", "acquire"})


def takes_locks(flat: FlatKernel) -> Callable[[Instruction], bool]:
    """Whether it is an atomicCAS or atomicExch with constants, as a lock is taken.

    An update in a loop stores what it computed: no lane waits for another there.
    """
    constants: set[str] = set()
    computed: set[str] = set()
    for statement in flat.body:
        if isinstance(statement, Instruction):
            moved = statement.family == "mov" and isinstance(statement.operands[1], Immediate)
            (constants if moved else computed).update(
                r.name for o in statement.operands[:1] for r in registers_of(o)
            )

    def is_constant(operand: Operand) -> bool:
        if isinstance(operand, Register):
            return operand.name in constants - computed
        return isinstance(operand, Immediate)

    def takes_a_lock(instruction: Instruction) -> bool:
        values = max(("cas" in instruction.modifiers) * 2, "exch" in instruction.modifiers)
        if instruction.family != "atom" or not values:
            return False
        return all(is_constant(operand) for operand in instruction.operands[-values:])

    return takes_a_lock
