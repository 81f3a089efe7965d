"""Module variables, and addresses in parameters, that a kernel may store to.

Addresses are followed from variables through registers, calls and tables of addresses, without
regard to order. An address that a kernel hides from that (in memory, or bit by bit) is not found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from astra_vgpu.lowering.control_flow import destinations, sources
from astra_vgpu.lowering.inline import inline
from astra_vgpu.ptx.parser import Module, PtxSyntaxError, parse
from astra_vgpu.ptx.syntax import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Register,
    Statement,
    Symbol,
    Variable,
    Vector,
    registers_of,
)
from astra_vgpu.types import PtxUnsupported

_DECLARED = re.compile(r"(?<![\w.])\.(?:global|const)\b([^;={]*)")
"""A declaration at a statement's begin: in an opcode, something stands before it."""
_DECLARED_NAME = re.compile(r"([%$A-Za-z_][\w$%]*)\s*(?:\[[^\]]*\]\s*)*$")
_WORD = re.compile(r"[%$A-Za-z_][\w$%]*")
_KEPT = frozenset({"global", "const"})
"""Spaces that hold from one call to the next what is stored there."""
_ON_CHIP = frozenset({"shared", "local", "param"})
_ADDRESS_BYTES = 8
_PARAMETER = "+"
"""Begins, before its offset, what stands for the address that a parameter holds."""

_PLACE = "@"
"""Begins, before its offset, what stands for the address of a place among the parameters."""

Slot = tuple[str, int]
"""A named place in a thread's own memory: its variable and an offset in bytes."""
Origins = dict[str | Slot, set[str]]
"""Module variables, and parameters by their offset, whose address a register or a slot may hold."""


def written_variables(ptx: str) -> tuple[str, ...]:
    """Names of module variables that some kernel may store to, sorted. Empty, too, where the text
    is not PTX that the virtual GPU's parser takes."""
    if not _mentions_variables(ptx):
        return ()
    try:
        module = parse(ptx)
    except PtxSyntaxError:
        return ()
    written = set[str]()
    for body, locals_ in _bodies(module):
        written |= _stored(body, _names(module, locals_, {}))
    return tuple(sorted(written))


def stored_parameters(ptx: str, kernel: str) -> frozenset[int]:
    """Offsets of the parameters of a kernel that hold addresses to which it may store. Empty, too,
    where the virtual GPU cannot read the text or put its functions into the kernel."""
    return _parameters(ptx, kernel, is_global_store)


def loaded_parameters(ptx: str, kernel: str) -> frozenset[int]:
    """Offsets of the parameters of a kernel that hold addresses from which it may load. Empty where
    `stored_parameters` is."""
    return _parameters(ptx, kernel, is_global_load)


def _parameters(ptx: str, kernel: str, accesses: Callable[[Instruction], bool]) -> frozenset[int]:
    try:
        module = parse(ptx)
        flat = inline(module, module.kernels[kernel])
    except (PtxSyntaxError, PtxUnsupported, KeyError):
        return frozenset()
    params = {p.name: (p.offset, p.size) for p in module.kernels[kernel].params}
    found = _reached(flat.body, _names(module, flat.variables, params), accesses)
    return frozenset(int(name[1:]) for name in found if name.startswith(_PARAMETER))


def _mentions_variables(ptx: str) -> bool:
    """Whether a module variable is named a second time, after its declaration."""
    names = {m[1] for d in _DECLARED.finditer(ptx) if (m := _DECLARED_NAME.search(d[1].strip()))}
    if not names:
        return False
    words = Counter(_WORD.findall(ptx))
    return any(words[name] > 1 for name in names)


def _bodies(module: Module) -> Iterator[tuple[list[Statement], Mapping[str, Variable]]]:
    """Each kernel with the functions that it calls; where these cannot be put into it (recursion
    through a pointer, an external function), each by itself."""
    apart = False
    for kernel in module.kernels.values():
        try:
            flat = inline(module, kernel)
        except PtxUnsupported:
            apart = True
            yield kernel.body, kernel.variables
        else:
            yield flat.body, flat.variables
    if apart:
        for function in module.functions.values():
            if not isinstance(function, Kernel):
                yield function.body, function.variables


@dataclass(frozen=True)
class _Names:
    """What names in a body stand for."""

    variables: Mapping[str, Variable]
    """Variables in global and constant memory: the module's, and those declared in the body."""
    slots: Mapping[str, Variable]
    """Other variables of the body, such as those in a thread's own memory and those of calls."""
    params: Mapping[str, tuple[int, int]]
    """Offsets and sizes of the kernel's parameters that are followed."""

    def within(self, place: int) -> bool:
        """Whether this offset lies in a parameter."""
        return any(start <= place < start + size for start, size in self.params.values())


def _names(
    module: Module, own: Mapping[str, Variable], params: Mapping[str, tuple[int, int]]
) -> _Names:
    """own: variables that are declared in the body, some of which may lie in global memory."""
    kept = {name: v for name, v in own.items() if v.space in _KEPT}
    slots = {name: v for name, v in own.items() if v.space not in _KEPT}
    return _Names(module.globals | kept, slots, params)


def _stored(body: Sequence[Statement], names: _Names) -> set[str]:
    """The variables and parameters to whose memory instructions of the body may store."""
    return _reached(body, names, is_global_store)


def _reached(
    body: Sequence[Statement], names: _Names, accesses: Callable[[Instruction], bool]
) -> set[str]:
    """The variables and parameters whose memory such instructions of the body may touch."""
    instructions = [s for s in body if isinstance(s, Instruction)]
    origins = _origins(instructions, names)
    reached = set[str]()
    for instruction in instructions:
        if accesses(instruction):
            addresses = [o for o in instruction.operands if isinstance(o, Address)]
            source = instruction.family == "cp" and accesses is is_global_load
            for address in addresses[1:2] if source else addresses[:1]:
                reached |= _of(address, origins, names.variables)
    return reached


def is_global_load(instruction: Instruction) -> bool:
    """Whether it may read global or constant memory; its first address says where, of a copy the
    second."""
    family, modifiers = instruction.family, instruction.modifiers
    spaces = [m.partition("::")[0] for m in modifiers]
    if family == "cp":
        return "prefetch" not in modifiers and "global" in spaces
    if family == "wmma":
        return "load" in modifiers and not _ON_CHIP & set(spaces)
    if family == "multimem":
        return "ld_reduce" in modifiers
    return family in ("ld", "ldu", "atom") and not _ON_CHIP & set(spaces)


def is_global_store(instruction: Instruction) -> bool:
    """Whether it may write to global or constant memory; its first address says where."""
    family, modifiers = instruction.family, instruction.modifiers
    spaces = [m.partition("::")[0] for m in modifiers]
    if family == "cp":  # the first space is that of the destination
        first = next((space for space in spaces if space in ("global", "shared")), "")
        return "bulk" in modifiers and "prefetch" not in modifiers and first == "global"
    if family == "wmma":
        return "store" in modifiers and not _ON_CHIP & set(spaces)
    if family == "multimem":
        return "ld_reduce" not in modifiers
    return family in ("st", "atom", "red") and not _ON_CHIP & set(spaces)


def _origins(instructions: Sequence[Instruction], names: _Names) -> Origins:
    """Addresses that registers and slots may hold, followed to a fixed point."""
    origins: Origins = {}
    grown = True
    while grown:
        grown = False
        for instruction in instructions:
            for place, new in _flow(instruction, origins, names):
                known = origins.setdefault(place, set()) if new else new
                if not new <= known:
                    known |= new
                    grown = True
    return origins


def _flow(
    instruction: Instruction, origins: Origins, names: _Names
) -> Iterator[tuple[str | Slot, set[str]]]:
    """Where an instruction puts addresses of module variables, and of which."""
    family, operands = instruction.family, instruction.operands
    address = next((o for o in operands if isinstance(o, Address)), None)
    variables = names.variables
    if family in ("ld", "ldu") and operands:
        for lane, register in enumerate(registers_of(operands[0])):
            yield register.name, _loaded(address, lane, origins, names)
    elif family == "st":
        items = operands[-1].items if isinstance(operands[-1], Vector) else operands[-1:]
        for lane, item in enumerate(items):
            if place := _slot(address, lane, names.slots):
                yield place, _of(item, origins, variables)
    elif family != "atom":
        flows = set[str]().union(*(origins.get(name, ()) for name in sources(instruction)))
        named = (_of(o, origins, variables) for o in operands if isinstance(o, Symbol))
        flows = flows.union(*named, *(_places(o, names) for o in operands))
        flows = set(_moved(instruction, flows, names))
        for name in destinations(instruction):
            yield name, flows


def _loaded(address: Address | None, lane: int, origins: Origins, names: _Names) -> set[str]:
    """What the lane-th element of a load may be the address of."""
    if place := _slot(address, lane, names.slots):
        return origins.get(place, set())
    if parameter := _slot(address, lane, names.params):
        return {f"{_PARAMETER}{names.params[parameter[0]][0] + parameter[1]}"}
    found = _in_tables(address, origins, names.variables)
    if address is not None and isinstance(address.base, Register):
        at = address.offset + _ADDRESS_BYTES * lane
        places = (int(o[1:]) + at for o in origins.get(address.base.name, ()) if o[0] == _PLACE)
        found = found | {f"{_PARAMETER}{place}" for place in places if names.within(place)}
    return found


def _places(operand: Operand, names: _Names) -> set[str]:
    """The place among the parameters whose address an operand is."""
    if not isinstance(operand, Symbol) or operand.name not in names.params:
        return set()
    return {f"{_PLACE}{names.params[operand.name][0] + operand.offset}"}


def _moved(instruction: Instruction, flows: set[str], names: _Names) -> Iterator[str]:
    """What a register holds after an instruction: of the address of a place that is computed with,
    that of another place of the same parameter."""
    steps = [o.value for o in instruction.operands[1:] if isinstance(o, Immediate)]
    for origin in flows:
        if origin[0] != _PLACE or instruction.family in ("mov", "cvta"):
            yield origin
        elif instruction.family == "add" and len(steps) == 1:
            if names.within(place := int(origin[1:]) + steps[0]):
                yield f"{_PLACE}{place}"
        else:
            for start, size in names.params.values():
                if start <= int(origin[1:]) < start + size:
                    yield from (f"{_PLACE}{p}" for p in range(start, start + size, _ADDRESS_BYTES))


def _slot(address: Address | None, lane: int, known: Mapping[str, object]) -> Slot | None:
    """The named place that the lane-th element of an access is at, if the name is among these."""
    if address is None or not isinstance(address.base, Symbol) or address.base.name not in known:
        return None
    return address.base.name, address.base.offset + address.offset + _ADDRESS_BYTES * lane


def _in_tables(
    address: Address | None, origins: Origins, variables: Mapping[str, Variable]
) -> set[str]:
    """The variables whose addresses stand in those that this address leads to."""
    if address is None:
        return set()
    tables = _of(address, origins, variables) & variables.keys()
    named = {each.symbol for table in tables for each in variables[table].relocations}
    return named & variables.keys()


def _of(operand: Operand, origins: Origins, variables: Mapping[str, Variable]) -> set[str]:
    """The variables whose address the operand may hold, or to which it may lead."""
    match operand:
        case Register(name=name):
            return origins.get(name, set())
        case Address(base=base):
            return _of(base, origins, variables)
        case Symbol(name=name):
            return {name} if name in variables else set()
        case Vector(items=items):
            return set[str]().union(*(_of(item, origins, variables) for item in items))
        case _:
            return set()
