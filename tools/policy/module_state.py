"""Module variables that kernels write: memory that two calls at once would share.

The judge runs one call after the other, so it cannot see what two calls at once do to a counter
that each of them sets back. A kernel may read module variables, `__constant__` tables among them,
and writes to its arguments alone.

Addresses are followed from variables through registers, calls and tables of addresses, without
regard to order. An address that a kernel hides from that (in memory, or bit by bit) is found where
the call is made: children/virtual.py looks at what was stored, children/cuda_state.py at what a
variable holds afterwards.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from astra_chat.tools.virtual_gpu.lowering.control_flow import destinations, sources
from astra_chat.tools.virtual_gpu.lowering.inline import inline
from astra_chat.tools.virtual_gpu.ptx.parser import Module, PtxSyntaxError, parse
from astra_chat.tools.virtual_gpu.ptx.syntax import (
    Address,
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
from astra_chat.tools.virtual_gpu.types import PtxUnsupported

SHARED_STATE = (
    "two calls that run at once would share it. What blocks share belongs in a workspace of the"
    ' contract (access = "workspace" in task.toml): its content is not specified before a call, so'
    " the kernel, or a memset of the launcher, has to clear it"
)
"""Why no kernel may write to a module variable, and what to do instead."""
_DECLARED = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|common)\s+)*\.(?:global|const)\b([^;={]*)", re.M
)
_DECLARED_NAME = re.compile(r"([%$A-Za-z_][\w$%]*)\s*(?:\[[^\]]*\]\s*)*$")
_WORD = re.compile(r"[%$A-Za-z_][\w$%]*")
_ON_CHIP = frozenset({"shared", "local", "param"})
_ADDRESS_BYTES = 8

Slot = tuple[str, int]
"""A named place in a thread's own memory: its variable and an offset in bytes."""
Origins = dict[str | Slot, set[str]]
"""Module variables whose address a register or a slot may hold."""


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
        written |= _stored(body, module.globals, locals_)
    return tuple(sorted(written))


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


def _stored(
    body: Sequence[Statement], variables: Mapping[str, Variable], slots: Mapping[str, Variable]
) -> set[str]:
    """The variables that instructions of the body may store to."""
    instructions = [s for s in body if isinstance(s, Instruction)]
    origins = _origins(instructions, variables, slots)
    written = set[str]()
    for instruction in instructions:
        if is_global_store(instruction):
            address = next((o for o in instruction.operands if isinstance(o, Address)), None)
            if address is not None:
                written |= _of(address, origins, variables)
    return written


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


def _origins(
    instructions: Sequence[Instruction],
    variables: Mapping[str, Variable],
    slots: Mapping[str, Variable],
) -> Origins:
    """To a fixed point."""
    origins: Origins = {}
    grown = True
    while grown:
        grown = False
        for instruction in instructions:
            for place, new in _flow(instruction, origins, variables, slots):
                known = origins.setdefault(place, set()) if new else new
                if not new <= known:
                    known |= new
                    grown = True
    return origins


def _flow(
    instruction: Instruction,
    origins: Origins,
    variables: Mapping[str, Variable],
    slots: Mapping[str, Variable],
) -> Iterator[tuple[str | Slot, set[str]]]:
    """Where an instruction puts addresses of module variables, and of which."""
    family, operands = instruction.family, instruction.operands
    address = next((o for o in operands if isinstance(o, Address)), None)
    place = _slot(address, slots)
    if family in ("ld", "ldu") and operands:
        for lane, register in enumerate(registers_of(operands[0])):
            yield (
                register.name,
                (
                    origins.get((place[0], place[1] + _ADDRESS_BYTES * lane), set())
                    if place
                    else _in_tables(address, origins, variables)
                ),
            )
    elif family == "st":
        items = operands[-1].items if isinstance(operands[-1], Vector) else operands[-1:]
        for lane, item in enumerate(items if place else ()):
            yield (place[0], place[1] + _ADDRESS_BYTES * lane), _of(item, origins, variables)
    elif family != "atom":
        flows = set[str]().union(*(origins.get(name, ()) for name in sources(instruction)))
        named = (_of(o, origins, variables) for o in operands if isinstance(o, Symbol))
        flows = flows.union(*named)
        for name in destinations(instruction):
            yield name, flows


def _slot(address: Address | None, slots: Mapping[str, Variable]) -> Slot | None:
    """The named place in a thread's own memory that this is the address of."""
    if address is None or not isinstance(address.base, Symbol) or address.base.name not in slots:
        return None
    return address.base.name, address.base.offset + address.offset


def _in_tables(
    address: Address | None, origins: Origins, variables: Mapping[str, Variable]
) -> set[str]:
    """The variables whose addresses stand in those that this address leads to."""
    if address is None:
        return set()
    tables = _of(address, origins, variables)
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
