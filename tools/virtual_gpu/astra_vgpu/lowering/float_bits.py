"""Which registers' bits are read: float32 arithmetic writes a GPU's NaN there.

Arithmetic on a GPU makes one NaN, 0x7fffffff, where a host's makes 0xffc00000 or keeps an
operand's bits. Only an instruction that reads a float as an integer sees the difference, such as
the addition that rounds to bfloat16. So both engines replace the NaNs of arithmetic only in
registers whose bits such an instruction gets: as they are, or by moves, selects and shuffles,
through shared and local memory, and through what changes at most a sign (neg, abs) or is not
known to make that NaN (conversions between float32 and float64). Global memory is not followed:
floats that a kernel stores there keep the host's NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from astra_vgpu.lowering.control_flow import BasicBlock, destinations
from astra_vgpu.ptx.modifiers import is_type
from astra_vgpu.ptx.syntax import Instruction, Operand, Vector, registers_of, type_bits

ARITHMETIC = frozenset(
    "add sub mul fma mad div rcp sqrt rsqrt ex2 lg2 sin cos tanh mma wmma".split()
)
"""Families whose NaN is the one; min and max make it anyway."""
_CARRY = frozenset("mov selp slct shfl neg abs copysign cvt st ld ldu ldmatrix".split())
_FLOATS = ("f32", "f64")


def is_arithmetic(instruction: Instruction) -> bool:
    """Whether its result is of float32 arithmetic; a product of matrices names that type first."""
    if instruction.family not in ARITHMETIC or instruction.opcode.startswith("wmma.load"):
        return False
    return next((m for m in instruction.modifiers if is_type(m)), "") == "f32"


def registers_read_as_bits(blocks: Sequence[BasicBlock]) -> frozenset[str]:
    """Returns their names."""
    body = [instruction for block in blocks for instruction in block.instructions]
    if not any(is_arithmetic(instruction) for instruction in body):
        return frozenset()
    found: set[str] = set()
    moves: list[tuple[set[str], set[str]]] = []
    for instruction in body:
        if _carries(instruction):
            moves.append((_targets(instruction), _sources(instruction)))
        elif _last_type(instruction) not in ("", "pred") and _reads_bits(instruction):
            found |= _names(instruction.operands)
    size = -1
    while size != len(found):
        size = len(found)
        for targets, sources in moves:
            if not targets.isdisjoint(found):
                found |= sources
    return frozenset(found)


def _carries(instruction: Instruction) -> bool:
    """Whether what it reads is what it writes, as far as the bits of a NaN count."""
    if instruction.opcode.startswith(("wmma.load", "wmma.store", "stmatrix")):
        return True
    if instruction.family not in _CARRY:
        return False
    name = _last_type(instruction)
    if instruction.family in ("neg", "abs", "copysign"):
        return name == "f32"
    if instruction.family == "cvt":
        return all(m in _FLOATS for m in instruction.modifiers if is_type(m))
    if instruction.family == "st":
        return not name or (name[0] in "bf" and type_bits(name) >= 32)
    halves = isinstance(instruction.operands[0], Vector) and name == "b32"
    return not (halves and instruction.family == "mov")


def _reads_bits(instruction: Instruction) -> bool:
    return "f" not in _last_type(instruction)


def _last_type(instruction: Instruction) -> str:
    return next((m for m in reversed(instruction.modifiers) if is_type(m)), "")


def _targets(instruction: Instruction) -> set[str]:
    is_store = instruction.opcode.startswith(("st", "wmma.store"))
    return _spaces(instruction) if is_store else destinations(instruction)


def _sources(instruction: Instruction) -> set[str]:
    is_load = instruction.opcode.startswith(("ld", "wmma.load"))
    return _spaces(instruction) if is_load else _names(instruction.operands[1:])


def _names(operands: Iterable[Operand]) -> set[str]:
    return {register.name for operand in operands for register in registers_of(operand)}


def _spaces(instruction: Instruction) -> set[str]:
    """The memory that it accesses, as names beside the registers'; a generic access may be to
    shared and to local memory."""
    named = {m.partition("::")[0] for m in instruction.modifiers}
    own = {"shared", "local", "param"} & named
    generic = set() if named & {"global", "const"} else {"shared", "local"}
    return {f"[{space}]" for space in own or generic}
