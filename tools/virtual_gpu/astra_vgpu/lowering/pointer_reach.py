"""Pointer analysis: through which arguments a kernel may load and store.

Addresses are followed from parameters and variables through all registers, without regard to order;
an address that is loaded from memory may point anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from astra_vgpu.lowering.control_flow import BasicBlock, destinations, sources
from astra_vgpu.lowering.ordered_accesses import is_loose, is_ordered
from astra_vgpu.lowering.parameter_places import Places, parameter_places, places_read
from astra_vgpu.ptx.modifiers import is_type
from astra_vgpu.ptx.syntax import (
    Address,
    Instruction,
    Operand,
    Register,
    Symbol,
    Vector,
    type_bits,
)

ANYWHERE = "anywhere"
Origin = str | int
"""A variable's name, a parameter's offset, or ANYWHERE."""
_WRITES = ("st", "atom", "red", "cp", "stmatrix", "wmma")
_READS = ("ld", "atom", "cp", "ldmatrix", "wmma")
_ON_CHIP = ("shared", "local", "param", "const")
_VECTORS = ("v2", "v4", "v8")


@dataclass(frozen=True)
class Reach:
    """What a kernel does to global memory, as far as its PTX shows."""

    stored: frozenset[Origin]
    loaded: frozenset[Origin]
    granule: int
    """Bytes of the narrowest of these accesses; 0: it stores nothing."""
    sites: tuple[Instruction, ...]
    """Plain and loose accesses, once a PTX line."""
    synchronises: bool
    """Whether it has atomic, volatile or ordered accesses: blocks may wait for each other."""
    loose: bool
    """Whether some accesses are loose: ordered_accesses.is_loose."""
    stored_in_bulk: frozenset[Origin] = frozenset()
    """What bulk copies and bulk reductions write to."""
    loaded_in_bulk: frozenset[Origin] = frozenset()
    """What bulk copies read, and bulk reductions change."""

    def number(self, instruction: Instruction) -> int:
        """Number of a site, from 1; 0 for an instruction that is none."""
        return self._numbers.get(instruction.line, 0)

    _numbers: dict[int, int] = field(default_factory=dict, compare=False)


def reach_of(blocks: Sequence[BasicBlock], params: Mapping[str, int], looks: bool) -> Reach:
    """Follows all addresses of a kernel.

    params: offset of each parameter; looks: ordered_accesses.looks_in_loops.
    """
    instructions = [instruction for block in blocks for instruction in block.body]
    origins = origins_of(instructions, params)
    stored: set[Origin] = set()
    loaded: set[Origin] = set()
    bulk: set[Origin] = set()
    read_in_bulk: set[Origin] = set()
    sites: dict[int, Instruction] = {}
    widths: list[int] = []
    synchronises = any_loose = False
    for instruction in instructions:
        if not is_global(instruction):
            continue
        family = instruction.family
        atomic = family in ("atom", "red") and "cta" not in instruction.modifiers
        ordered = atomic or is_ordered(instruction, looks)
        synchronises |= ordered
        loose = not atomic and is_loose(instruction, looks)
        any_loose |= loose
        addresses = [o for o in instruction.operands if isinstance(o, Address)]
        target, source = addresses[:1], addresses[-1:]
        if family in _WRITES and family != "cp":
            stored |= leads_to(target, origins, params)
        if _stores_in_bulk(instruction):
            bulk |= leads_to(target, origins, params)
        if place := _read_in_bulk(instruction, addresses):
            read_in_bulk |= leads_to(place, origins, params)
        if family in _READS:
            loaded |= leads_to(source, origins, params)
        if loose or not ordered:
            sites.setdefault(instruction.line, instruction)
            widths.append(_width(instruction))
    numbers = {line: number for number, line in enumerate(sorted(sites), 1)}
    granule = min(widths, default=0) if stored else 0
    ordered_sites = tuple(sites[line] for line in sorted(sites))
    return Reach(
        frozenset(stored),
        frozenset(loaded),
        granule,
        ordered_sites,
        synchronises,
        any_loose,
        frozenset(bulk),
        frozenset(read_in_bulk),
        numbers,
    )


def _stores_in_bulk(instruction: Instruction) -> bool:
    return _spaces_in_bulk(instruction)[:1] == ["global"]


def _read_in_bulk(instruction: Instruction, addresses: Sequence[Address]) -> Sequence[Address]:
    """The address in global memory that a bulk copy reads, or a bulk reduction changes."""
    spaces = _spaces_in_bulk(instruction)
    if spaces[1:] == ["global"]:
        return addresses[1:2]
    return addresses[:1] if spaces and "reduce" in instruction.modifiers else ()


def _spaces_in_bulk(instruction: Instruction) -> list[str]:
    """Where a bulk copy goes to and comes from; empty for other instructions."""
    modifiers = instruction.modifiers
    if instruction.family != "cp" or "bulk" not in modifiers or "prefetch" in modifiers:
        return []
    return [m for m in modifiers if m.startswith(("shared", "global"))]


def is_global(instruction: Instruction) -> bool:
    if instruction.family not in (*_WRITES, *_READS):
        return False
    if instruction.family == "cp":
        return any(isinstance(operand, Address) for operand in instruction.operands)
    if instruction.family == "wmma" and "mma" in instruction.modifiers:
        return False
    spaces = [m.partition("::")[0] for m in instruction.modifiers]
    return not any(space in _ON_CHIP for space in spaces)


def _width(instruction: Instruction) -> int:
    """Bytes of an access, at most 16."""
    if instruction.family in ("ldmatrix", "stmatrix"):
        return 16
    if instruction.family in ("cp", "wmma"):
        return 4 if instruction.family == "cp" else 1
    lanes = next((int(m[1:]) for m in instruction.modifiers if m in _VECTORS), 1)
    kind = next(m for m in reversed(instruction.modifiers) if is_type(m))
    return min(lanes * type_bits(kind) // 8, 16)


def leads_to(
    addresses: Sequence[Operand], origins: Mapping[str, set[Origin]], params: Mapping[str, int]
) -> set[Origin]:
    reached: set[Origin] = set()
    for address in addresses:
        reached |= _of(address, origins, params) or {ANYWHERE}
    return reached or {ANYWHERE}


def _of(
    operand: Operand, origins: Mapping[str, set[Origin]], params: Mapping[str, int]
) -> set[Origin]:
    """Where the value of an operand, or the address that it is, comes from."""
    match operand:
        case Register(name=name):
            return origins.get(name, set())
        case Address(base=base):
            return _of(base, origins, params)
        case Symbol(name=name):
            return {name} if name not in params else set()
        case Vector(items=items):
            return set().union(*(_of(item, origins, params) for item in items))
        case _:
            return set()


def origins_of(
    instructions: Sequence[Instruction], params: Mapping[str, int]
) -> dict[str, set[Origin]]:
    """Returns what each register's value may come from, by name, at the fixed point."""
    origins: dict[str, set[Origin]] = {}
    places = parameter_places(instructions, params)
    grown = True
    while grown:
        grown = False
        for instruction in instructions:
            new = _result(instruction, origins, params, places)
            for name in destinations(instruction) if new else ():
                known = origins.setdefault(name, set())
                if not new <= known:
                    known |= new
                    grown = True
    return origins


def _result(
    instruction: Instruction,
    known_origins: Mapping[str, set[Origin]],
    params: Mapping[str, int],
    places: Places,
) -> set[Origin]:
    """What an instruction's results may come from."""
    if instruction.family in ("ld", "atom"):
        source = next((o for o in instruction.operands if isinstance(o, Address)), None)
        read = places_read(source, places, params) if source is not None else None
        if read is not None:
            lanes = next((int(m[1:]) for m in instruction.modifiers if m in _VECTORS), 1)
            return {first + 8 * lane for lane in range(lanes) for first in read}
        wide = any(is_type(m) and type_bits(m) == 64 for m in instruction.modifiers)
        return {ANYWHERE} if wide else set()
    flows = set().union(*(known_origins.get(name, set()) for name in sources(instruction)))
    for operand in instruction.operands:
        if isinstance(operand, Symbol):
            flows |= _of(operand, known_origins, params)
    return flows
