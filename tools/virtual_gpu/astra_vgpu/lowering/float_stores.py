"""Which stores are of floats that the kernel computed: the race checks take their NaNs for equal.

Arithmetic on a GPU makes one NaN of all, where a host's keeps the bits of its operands. So two
lanes that store one reduction may differ here and do not there. PTX's type does not tell (b32 may
be anything), so a store counts as one of floats where its own type is one, or where every register
that it stores is computed by instructions of one float type, or comes from such a one by moves,
selects and shuffles; loads and constants among them are of any type. Integers are never among
these, and only two NaNs are ever taken for equal: no race of finite values is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from astra_vgpu.lowering.control_flow import BasicBlock, destinations
from astra_vgpu.ptx.modifiers import is_type
from astra_vgpu.ptx.syntax import Instruction, Operand, Special, registers_of

INFINITIES = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F80_0000, "f64": 0x7FF0_0000_0000_0000}
"""Bits of infinity by float type: those of a NaN are larger, apart from the sign."""
_FOLLOWED = {"mov": slice(1, None), "selp": slice(1, 3), "shfl": slice(1, 2)}
"""Operands that become the result, by opcode family."""
_ANY_TYPE = frozenset({"ld", "ldmatrix", "ldu"})
_UNKNOWN = frozenset({"?"})
_MINIFLOATS = re.compile(r"u?e\dm\d")
Types = frozenset[str]


def float_stores(blocks: Sequence[BasicBlock]) -> dict[int, str]:
    """Returns the float type of what each store of floats writes, by id() of the store."""
    body = [instruction for block in blocks for instruction in block.instructions]
    known = _register_types([i for i in body if destinations(i)])
    types = {id(i): _stored(i, known) for i in body if i.family == "st"}
    return {number: name for number, name in types.items() if name}


def _stored(store: Instruction, known: dict[str, Types]) -> str:
    own = _float_type(store)
    if own:
        return own
    each = {known.get(r.name, _UNKNOWN) for o in store.operands[1:] for r in registers_of(o)}
    return next((name for name in INFINITIES if each == {frozenset({name})}), "")


def _register_types(body: Sequence[Instruction]) -> dict[str, Types]:
    """Returns the float types that each register may hold, by name."""
    known: dict[str, Types] = {}
    moves: list[Instruction] = []
    for instruction in body:
        if instruction.family in _FOLLOWED:
            moves.append(instruction)
        elif instruction.family not in _ANY_TYPE:
            name = _float_type(instruction)
            _add(known, instruction, frozenset({name}) if name else _UNKNOWN)
    changed = True
    while changed:
        changed = False
        for instruction in moves:
            sources = instruction.operands[_FOLLOWED[instruction.family]]
            changed |= _add(known, instruction, _joined(sources, known))
    return known


def _add(known: dict[str, Types], instruction: Instruction, types: Types) -> bool:
    changed = False
    for name in destinations(instruction):
        before = known.get(name, frozenset())
        known[name] = before | types
        changed |= known[name] != before
    return changed


def _joined(operands: Iterable[Operand], known: dict[str, Types]) -> Types:
    operands = list(operands)
    if any(isinstance(operand, Special) for operand in operands):
        return _UNKNOWN
    names = [r.name for operand in operands for r in registers_of(operand)]
    return frozenset().union(*(known.get(name, frozenset()) for name in names))


def _float_type(instruction: Instruction) -> str:
    """Float type of the result, or ""; a conversion and a product of matrices name it first."""
    named = (m for m in instruction.modifiers if is_type(m) or _MINIFLOATS.match(m))
    name = next(named, "").removesuffix("x2")
    return name if name in INFINITIES else ""
