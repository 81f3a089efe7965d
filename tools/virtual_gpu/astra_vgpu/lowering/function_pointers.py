"""Function pointers: addresses of device functions, and indirect calls as a choice of direct ones.

A function's address is a number of its own, far from any memory. The target of an indirect call can
only be a function whose address the module takes somewhere and whose parameters match the call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from astra_vgpu.ptx.syntax import (
    Function,
    Group,
    Guard,
    Immediate,
    Instruction,
    Label,
    Module,
    Operand,
    Register,
    Statement,
    Symbol,
    Variable,
)

_FIRST, _STEP = 1 << 59, 16


def address_of(module: Module, name: str) -> int | None:
    """The address of a device function; None for any other name."""
    names = sorted(module.functions)
    return _FIRST + _STEP * names.index(name) if name in module.functions else None


def with_addresses(module: Module, instruction: Instruction) -> Instruction:
    """Names of functions as the numbers that they stand for."""
    if instruction.family != "mov":
        return instruction
    named = [
        address_of(module, o.name) if isinstance(o, Symbol) else None for o in instruction.operands
    ]
    if not any(named):
        return instruction
    pairs = zip(instruction.operands, named, strict=True)
    operands = tuple(Immediate(address) if address else o for o, address in pairs)
    return dataclasses.replace(instruction, operands=operands)


def candidates(module: Module, call: Instruction, slots: dict[str, Variable]) -> list[Function]:
    """The functions that the call can reach. slots: those of the caller, by name."""
    groups = [o for o in call.operands if isinstance(o, Group)]
    sizes = [slots[i.name].size for g in groups for i in g.items if isinstance(i, Symbol)]
    taken = _taken(module)
    return [
        function
        for name, function in sorted(module.functions.items())
        if name in taken
        and function.defined
        and [p.size for p in (*function.returns, *function.params)] == sizes
    ]


def choice(
    module: Module, call: Instruction, pointer: Register, functions: list[Function], number: int
) -> Iterator[Statement]:
    """One direct call for each candidate, behind a comparison; a trap if it is none of them."""
    after, hit = f"$called${number}", Register(f"$other${number}", "pred")
    for place, function in enumerate(functions):
        following = f"$next${number}${place}"
        address = Immediate(address_of(module, function.name) or 0)
        yield _one(call, "setp.ne.u64", (hit, pointer, address))
        yield _one(call, "bra", (Symbol(following),), Guard(hit, False))
        yield dataclasses.replace(call, operands=_direct(call, function))
        yield _one(call, "bra", (Symbol(after),))
        yield Label(following)
    yield _one(call, "trap", ())
    yield Label(after)


def _one(
    call: Instruction, opcode: str, operands: tuple[Operand, ...], guard: Guard | None = None
) -> Instruction:
    return dataclasses.replace(call, opcode=opcode, operands=operands, guard=guard)


def _direct(call: Instruction, function: Function) -> tuple[Operand, ...]:
    """The operands without the prototype, and the pointer as a name."""
    return tuple(
        Symbol(function.name) if isinstance(o, Register) else o
        for o in call.operands
        if isinstance(o, Register | Group)
    )


def _taken(module: Module) -> set[str]:
    """Functions whose address the module takes."""
    names = {r.symbol for v in module.globals.values() for r in v.relocations}
    for body in (f.body for f in (*module.functions.values(), *module.kernels.values())):
        for statement in body:
            if isinstance(statement, Instruction) and statement.family == "mov":
                names.update(o.name for o in statement.operands if isinstance(o, Symbol))
    return names & set(module.functions)
