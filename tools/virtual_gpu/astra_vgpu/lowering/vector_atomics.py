"""Vector atom and red as scalar instructions, one per element: elements are atomic one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from astra_vgpu.ptx.modifier_rules import misuse
from astra_vgpu.ptx.modifiers import is_type
from astra_vgpu.ptx.syntax import (
    Address,
    Instruction,
    Operand,
    Vector,
    registers_of,
    type_bits,
)

_VECTORS = ("v2", "v4", "v8")


def scalars(instruction: Instruction) -> Iterator[Instruction]:
    """The instruction itself, unless it is an atomic one on a vector.

    A vector whose results are its own sources stays as it is, and so do operands that are no such
    vectors: the engines refuse it.
    """
    modifiers = instruction.modifiers
    form = next((m for m in modifiers if m in _VECTORS), "")
    if instruction.family not in ("atom", "red") or not form or not _splits(instruction, form):
        yield instruction
        return
    opcode = instruction.opcode.replace(f".{form}", "", 1)
    size = type_bits(modifiers[-1]) // 8
    for number in range(int(form[1:])):
        operands = tuple(_item(operand, number, size) for operand in instruction.operands)
        yield dataclasses.replace(instruction, opcode=opcode, operands=operands)


def _splits(instruction: Instruction, form: str) -> bool:
    operands = instruction.operands
    places = (0, 2) if instruction.family == "atom" else (1,)
    return (
        is_type(instruction.modifiers[-1])
        and not misuse(instruction)
        and len(operands) == places[-1] + 1
        and isinstance(operands[places[-1] - 1], Address)
        and all(_is_vector(operands[place], int(form[1:])) for place in places)
        and not _overlaps(instruction)
    )


def _is_vector(operand: Operand, number: int) -> bool:
    return isinstance(operand, Vector) and len(operand.items) == number


def _item(operand: Operand, number: int, size: int) -> Operand:
    if isinstance(operand, Vector):
        return operand.items[number]
    if isinstance(operand, Address):
        return dataclasses.replace(operand, offset=operand.offset + number * size)
    return operand


def _overlaps(instruction: Instruction) -> bool:
    if instruction.family == "red":
        return False
    written = set(registers_of(instruction.operands[0]))
    return any(written & set(registers_of(operand)) for operand in instruction.operands[1:])
