"""What PTX instructions become: slots of the machine code, and cycles until a result is there.

ptxas fuses, folds and expands, so slots are an average and not exact: logic and additions of whole
numbers often share an instruction, quotients become many. Cycles are measured on an H200 (fused
multiply-add, shared load, shuffle, exponential, barrier) or those of the instructions that an
operation expands to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from astra_chat.tools.virtual_gpu.flow import (
    BasicBlock,
    Branch,
    Leave,
    Suspend,
    Switch,
    destinations,
    sources,
)
from astra_chat.tools.virtual_gpu.regions import is_step
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


Classed = Sequence[tuple[Instruction, str]]
"""Instructions with their classes."""


@dataclass(frozen=True)
class Stretch:
    """The body of a basic block within a region."""

    body: tuple[tuple[Instruction, str], ...]
    conditional: bool
    """Its instructions are predicated: what they write keeps its old value where the guard fails."""


def slots(body: Classed, block: BasicBlock, *, ends: bool = True) -> int:
    """Machine instructions of a basic block, in tenths. `ends`: the block's end is one too."""
    total = sum(_one(instruction, kind)[0] for instruction, kind in body)
    if ends and isinstance(block.end, Branch | Switch | Leave | Suspend):
        total += TENTHS
    return total


def overhead(block: BasicBlock) -> int:
    """Of its slots, those that a loop spends on being one."""
    counting = sum(i.family == "setp" or is_step(i) for i in block.body)
    return TENTHS * (1 + counting)


def chain(stretches: Sequence[Stretch], last: BasicBlock) -> int:
    """Cycles of the longest chain of results through these bodies, one behind the other; at least
    one for each slot."""
    issued, longest = 0, 0
    ready: dict[str, int] = {}
    for stretch in stretches:
        for instruction, kind in stretch.body:
            mine, wait = _one(instruction, kind)
            issued += mine
            start = max((ready.get(name, 0) for name in sources(instruction)), default=0)
            done = start + wait
            for name in destinations(instruction):
                ready[name] = max(done, ready.get(name, 0)) if stretch.conditional else done
            longest = max(longest, done)
    match last.end:
        case Branch() | Switch() | Leave():
            longest += CYCLES["control"]
        case Suspend():
            longest += CYCLES["barrier"]
    return max(longest, issued // TENTHS)


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
