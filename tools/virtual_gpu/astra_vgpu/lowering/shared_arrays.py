"""Which arrays in shared memory an access may be to: those that its address was computed from.

Addresses are followed from the names of arrays through all registers, without regard to order. An
address that also comes from elsewhere, such as a pointer that was loaded, may lead anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from astra_vgpu.lowering.control_flow import BasicBlock, destinations
from astra_vgpu.lowering.unset_registers import FROM_MEMORY
from astra_vgpu.ptx.syntax import (
    Address,
    Instruction,
    Operand,
    Register,
    Symbol,
    Vector,
)

_ELSEWHERE = ""
"""Stands among the names of arrays for what is not computed from one."""
_PASSED = frozenset("mov cvta cvt selp slct shfl".split())
_MOVED = frozenset("add sub mad mad24 fma and or xor lop3 min max".split())
"""Families whose result is an address if one operand is."""
_ANYWHERE = frozenset({_ELSEWHERE})
Origins = frozenset[str]


@dataclass(frozen=True)
class SharedArray:
    """A variable in a block's shared memory."""

    name: str
    """Name as the source has it, where that can be told."""
    start: int
    end: int | None
    """Past its last byte; None: to the end of what the launch has."""


def named_array(symbol: str, start: int, size: int) -> SharedArray:
    """`size` is 0 of an `extern __shared__` array."""
    return SharedArray(_name(symbol), start, start + size if size else None)


def outside_arrays(access: str, offset: int, arrays: Sequence[SharedArray]) -> str:
    """The message for an access at this offset in shared memory that lies in none of them."""
    names = " or ".join(
        f"{array.name}, bytes {array.start} to {array.end - 1 if array.end else 'the last'}"
        for array in arrays
    )
    return (
        f"{access} at shared offset {offset}, outside the array that its address was computed from"
        f" ({names})"
    )


def reached_arrays(
    blocks: Sequence[BasicBlock], arrays: Mapping[str, SharedArray]
) -> dict[int, tuple[SharedArray, ...]]:
    """Returns the only arrays that an instruction may access, by its id(), where they are known and
    the kernel has others."""
    if len(arrays) < 2:
        return {}
    body = [i for block in blocks for i in block.instructions]
    held = _held(body, arrays)
    reached: dict[int, tuple[SharedArray, ...]] = {}
    for instruction in body:
        origins = [_of(a, held, arrays) for a in _addresses(instruction)]
        names = frozenset().union(*origins)
        if all(origins) and names and _ELSEWHERE not in names:
            reached[id(instruction)] = tuple(arrays[name] for name in sorted(names))
    return reached


def _addresses(instruction: Instruction) -> Iterator[Address]:
    """Those that may lie in shared memory: of a copy by the spaces that it names in their order,
    and its mbarrier."""
    found = [operand for operand in instruction.operands if isinstance(operand, Address)]
    if instruction.family != "cp":
        yield from found[:1]
        return
    parts = (m.partition("::")[0] for m in instruction.modifiers)
    spaces = [part for part in parts if part in ("shared", "global")]
    for address, space in zip_longest(found, spaces[: len(found)], fillvalue="shared"):
        if space == "shared" and isinstance(address, Address):
            yield address


def _held(body: Sequence[Instruction], arrays: Mapping[str, SharedArray]) -> dict[str, Origins]:
    """What each register's value comes from, to a fixed point."""
    held: dict[str, Origins] = {}
    grown = True
    while grown:
        grown = False
        for instruction in body:
            new = _result(instruction, held, arrays)
            for name in (*destinations(instruction), *_slot_stored(instruction)):
                known = held.get(name, frozenset())
                if not new <= known:
                    held[name] = known | new
                    grown = True
    return held


def _slot(operand: Operand) -> str:
    """The name of a call's slot, which holds values as a register does."""
    base = operand.base if isinstance(operand, Address) else None
    return base.name if isinstance(base, Symbol) else ""


def _slot_stored(instruction: Instruction) -> tuple[str, ...]:
    slot = instruction.family == "st" and "param" in instruction.modifiers
    return (_slot(instruction.operands[0]),) if slot else ()


def _result(
    instruction: Instruction, held: Mapping[str, Origins], arrays: Mapping[str, SharedArray]
) -> Origins:
    family, operands = instruction.family, instruction.operands[1:]
    if family == "st":
        return frozenset().union(*(_of(operand, held, arrays) for operand in operands))
    if family in FROM_MEMORY:
        return held.get(_slot(operands[0]), _ANYWHERE) if operands else _ANYWHERE
    origins = [_of(operand, held, arrays) for operand in operands]
    if family in _PASSED:
        values = origins[:2] if family in ("selp", "slct") else origins[:1]
        return frozenset().union(*values)
    pointers = [o for o in origins if o - _ANYWHERE]
    if not pointers:
        return _ANYWHERE if all(origins) else frozenset()
    product = family in ("mad", "mad24", "fma")
    first = origins[2] if product else origins[0]
    commutes = family not in ("sub", "mad", "mad24", "fma")
    if family not in _MOVED or len(pointers) > 1 or not (commutes or pointers[0] is first):
        return frozenset().union(*pointers) | _ANYWHERE
    return pointers[0]


def _of(
    operand: Operand, held: Mapping[str, Origins], arrays: Mapping[str, SharedArray]
) -> Origins:
    match operand:
        case Register(name=name):
            return held.get(name, frozenset())
        case Address(base=base):
            return _of(base, held, arrays)
        case Symbol(name=name) if name in arrays:
            return frozenset({name})
        case Vector(items=items):
            return frozenset().union(*(_of(item, held, arrays) for item in items))
        case _:
            return _ANYWHERE


def _name(symbol: str) -> str:
    """The last name in a mangled one: _ZZ3sumPfE4room is `room`."""
    for number in re.finditer(r"[1-9]\d*", symbol):
        name = symbol[number.end() :]
        if symbol.startswith("_Z") and len(name) == int(number[0]) and not name[0].isdigit():
            return name
    return symbol
