"""Parameters that are read through a register: `ld.param [%rd]` at an offset that branches chose,
which is how nvcc compiles `flag ? call.first : call.second` of a struct that is passed by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from astra_vgpu.lowering.control_flow import destinations
from astra_vgpu.ptx.syntax import Address, Immediate, Instruction, Operand, Register, Symbol

MOST_PLACES = 16
"""Offsets of one register beyond which it is taken as unknown: a loop may walk through an array."""
Places = Mapping[str, frozenset[int]]


def parameter_places(instructions: Sequence[Instruction], params: Mapping[str, int]) -> Places:
    """Follows addresses of parameters through moves and through sums with constants.

    Args:
        instructions: of one kernel, in any order.
        params: offset of each parameter, in bytes.

    Returns:
        For each register that can hold nothing else: the offsets, in bytes, among the parameters.
    """
    found: dict[str, frozenset[int]] = {}
    odd: set[str] = set()
    grown = True
    while grown:
        grown = False
        for instruction in instructions:
            for name in destinations(instruction):
                if name in odd:
                    continue
                new = _moved(instruction, found, odd, params)
                known = found.get(name, frozenset())
                if new is None or len(known | new) > MOST_PLACES:
                    odd.add(name)
                    grown = True
                elif not new <= known:
                    found[name] = known | new
                    grown = True
    return {name: places for name, places in found.items() if name not in odd}


def places_read(
    source: Address, places: Places, params: Mapping[str, int]
) -> frozenset[int] | None:
    """Returns the offsets among the parameters that an ld.param reads at; None if unknown."""
    match source.base:
        case Symbol(name=name) if name in params:
            return frozenset({params[name] + source.offset})
        case Register(name=name) if name in places:
            return frozenset(place + source.offset for place in places[name])
    return None


def _moved(
    instruction: Instruction,
    found: Places,
    odd: set[str],
    params: Mapping[str, int],
) -> frozenset[int] | None:
    """Offsets that an instruction's result may have as far as is known now; None: another value."""
    inputs = instruction.operands[1:]
    if instruction.family == "mov" and len(inputs) == 1:
        return _held(inputs[0], found, odd, params)
    if instruction.family in ("add", "sub") and len(inputs) == 2:
        one, other = inputs
        if isinstance(one, Immediate) and instruction.family == "add":
            one, other = other, one
        held = _held(one, found, odd, params)
        if held is not None and isinstance(other, Immediate) and other.kind == "int":
            step = (other.value + 2**63) % 2**64 - 2**63
            step = step if instruction.family == "add" else -step
            return frozenset(place + step for place in held)
    return None


def _held(
    operand: Operand, found: Places, odd: set[str], params: Mapping[str, int]
) -> frozenset[int] | None:
    match operand:
        case Symbol(name=name, offset=offset) if name in params:
            return frozenset({params[name] + offset})
        case Register(name=name) if name not in odd:
            return found.get(name, frozenset())
    return None
