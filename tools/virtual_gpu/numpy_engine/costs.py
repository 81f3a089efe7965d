"""What PTX instructions become: slots of the machine code, and cycles until a result is there.

ptxas fuses, folds and expands, so slots are an average and not exact: logic and additions of whole
numbers often share an instruction, quotients become many. Cycles are measured on an H200 (fused
multiply-add, shared load, shuffle, exponential, barrier) or those of the instructions that an
operation expands to.
"""

from __future__ import annotations

from astra_chat.tools.virtual_gpu.flow import (
    BasicBlock,
    Branch,
    Leave,
    Suspend,
    Switch,
    destinations,
    sources,
)
from astra_chat.tools.virtual_gpu.syntax import Instruction

TENTHS = 10
"""Slots are counted in tenths of an instruction."""

CYCLES = {
    "int": 4, "float": 4, "half": 5, "global": 2, "move": 0, "control": 5, "convert": 8,
    "special": 20, "shuffle": 24, "shared": 29, "barrier": 20, "atomic": 20,
    "tensor": 33,
}  # fmt: skip
"""By class of Counters.warp_instructions, until the result can be used; the wait for global memory
is not in here."""
_FREE = frozenset({"mov", "cvta"})
_FUSED = frozenset("and or xor not shl shr add sub lop3 shf".split())


def costs(body: list[tuple[Instruction, str]], block: BasicBlock) -> tuple[int, int]:
    """(slots in tenths, cycles of the longest chain) of a basic block whose instructions have these
    classes."""
    slots, issued, longest = 0, 0, 0
    ready: dict[str, int] = {}
    for instruction, kind in body:
        mine, wait = _one(instruction, kind)
        slots += mine
        issued += mine
        start = max((ready.get(name, 0) for name in sources(instruction)), default=0)
        done = start + wait
        for name in destinations(instruction):
            ready[name] = done
        longest = max(longest, done)
    match block.end:
        case Branch() | Switch() | Leave():
            slots, longest = slots + TENTHS, longest + CYCLES["control"]
        case Suspend():
            slots, longest = slots + TENTHS, longest + CYCLES["barrier"]
    return slots, max(longest, issued // TENTHS)


def _one(instruction: Instruction, kind: str) -> tuple[int, int]:
    family, modifiers = instruction.family, instruction.modifiers
    if family in _FREE or kind == "move":
        return 0, 0
    wide = bool({"s64", "u64", "b64", "f64"}.intersection(modifiers[-1:]))
    if family in ("div", "rem", "sqrt", "rcp") and "approx" not in modifiers:
        return _quotient(family, modifiers, kind, wide)
    if kind == "int":
        return _whole(family, wide)
    if kind == "special":
        return (TENTHS if "ftz" in modifiers else 2 * TENTHS), CYCLES[kind]
    if family == "st":
        return TENTHS, 0
    return TENTHS, CYCLES[kind]


def _whole(family: str, wide: bool) -> tuple[int, int]:
    if family in _FUSED:
        return (10 if wide else 6), CYCLES["int"]
    if family in ("mul", "mad"):
        return (15 if wide else 8), CYCLES["int"]
    return 8, CYCLES["int"]


def _quotient(family: str, modifiers: tuple[str, ...], kind: str, wide: bool) -> tuple[int, int]:
    """Divisions and roots that are rounded right, and quotients of whole numbers."""
    if kind == "int":
        return (900, 400) if wide else (180, 110)
    if "full" in modifiers:
        return 4 * TENTHS, 36
    if wide:
        return 30 * TENTHS, 200
    return (15 * TENTHS, 60) if family == "div" else (10 * TENTHS, 50)
