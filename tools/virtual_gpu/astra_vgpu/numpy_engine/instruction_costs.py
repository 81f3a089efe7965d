"""Cost of PTX instructions: their machine instructions, and cycles to the result.

ptxas fuses, folds and expands, so the numbers are averages: logic and integer additions often share
a machine instruction, divisions become many. Cycles are measured on an H200 (chains.cu of the
calibration) or are those of the instructions that an operation expands to.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from astra_vgpu.isa.fragments import machine_accesses
from astra_vgpu.lowering.control_flow import (
    BasicBlock,
    Branch,
    Leave,
    Suspend,
    Switch,
    destinations,
    sources,
)
from astra_vgpu.lowering.regions import is_step
from astra_vgpu.ptx.syntax import Instruction, Special, registers_of

AHEAD = 8
"""Instructions, between results that a warp waits for together."""
TENTHS = 10
"""Slots are counted in tenths of an instruction."""
_SHORT_STEP = 7
"""Tenths of a tensor core's step that a product of rows of 16 bytes takes."""
_DOUBLE_PRODUCTS = 256
"""Products of doubles in the time of an m16n8k16 of halves: by NVIDIA's peak rates of an H200."""
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_ROW_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "f32": 32,
    "s32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "f64": 64,
}

CYCLES = {
    "int": 5,
    "float": 4,
    "half": 6,
    "global": 2,
    "move": 0,
    "control": 7,
    "convert": 5,
    "special": 17,
    "shuffle": 24,
    "shared": 24,
    "barrier": 20,
    "atomic": 20,
    "tensor": 25,
}
"""Cycles until the result can be used, by class of Counters.warp_instructions; the wait for global
memory is not in here."""
_LOGIC = dict.fromkeys(
    "setp set selp min max and or xor not shr shf prmt bfe bfi lop3 popc brev clz bfind".split(),
    TENTHS,
) | dict.fromkeys("add sub shl cvt".split(), TENTHS // 2)
_COUNTS_BITS = frozenset({"popc", "clz", "bfind", "brev"})
_VOTES = frozenset({"vote", "activemask", "elect"})
_OF_QUOTIENT = 3
"""Instructions of the special functions' unit."""
_REUSED = 100
"""Tenths that an integer division saves where the divisor's reciprocal is known."""
_FREE = frozenset({"mov", "cvta"})
_FUSED = frozenset("and or xor not shl shr add sub lop3 shf".split())


Classed = Sequence[tuple[Instruction, str]]
"""Instructions with their classes."""


@dataclass(frozen=True)
class RegionBlock:
    """The body of a basic block within a region."""

    body: tuple[tuple[Instruction, str], ...]
    conditional: bool
    """Its instructions are predicated: what they write keeps its old value where a guard fails."""


def slots(body: Classed, block: BasicBlock, *, ends: bool = True, loops: bool = False) -> int:
    """Machine instructions of a basic block, in tenths. `ends`: the block's end is one too;
    `loops`: it comes back to itself."""
    total = sum(_one(instruction, kind)[0] for instruction, kind in body)
    total -= _REUSED * _divided_again(body, loops)
    if ends and isinstance(block.end, Branch | Switch | Leave | Suspend):
        total += TENTHS
    return total


def one_slots(instruction: Instruction, kind: str) -> int:
    """Machine instructions that one is about, in tenths."""
    return _one(instruction, kind)[0]


def has_slow_path(instruction: Instruction) -> bool:
    """Quotients and roots that are correctly rounded, and quotients of 64 bits, branch to one."""
    fast = {"approx", "full"}.intersection(instruction.modifiers)
    if instruction.family not in ("div", "rem", "rcp", "sqrt") or fast:
        return False
    return instruction.modifiers[-1] in ("f32", "f64", "s64", "u64")


def alu_tenths(body: Classed) -> int:
    """Machine instructions, in tenths, that only the unit for logic and comparisons serves.
    Additions and shifts to the left are multiplications where that unit is busy: half of them are
    counted."""
    total = 0
    for instruction, kind in body:
        if kind in ("int", "float"):
            share = _LOGIC.get(instruction.family, 0)
            whole = kind == "int" or share == TENTHS
            total += share * _one(instruction, kind)[0] // TENTHS if whole else 0
    return total


def special_tenths(body: Classed, *, loops: bool = False) -> int:
    """Instructions of the unit for special functions, in tenths."""
    again = _divided_again(body, loops)
    return TENTHS * (sum(_special(i, kind) for i, kind in body) - _OF_QUOTIENT * again)


def _special(instruction: Instruction, kind: str) -> int:
    """An integer division is converted, inverted and converted back; one of floats that is
    correctly rounded is checked besides."""
    family = instruction.family
    if family in ("div", "rem") and kind == "int":
        return _OF_QUOTIENT
    if family == "div" and instruction.modifiers[-1] == "f32":
        return 1 + has_slow_path(instruction)
    return int(kind == "special" or family in _COUNTS_BITS)


def _divided_again(body: Classed, loops: bool) -> int:
    """Integer divisions by what was divided by before, or by what a loop does not change:
    the reciprocal is known."""
    written = {name for i, _ in body for name in destinations(i)}
    known: set[str] = set()
    again = 0
    for instruction, kind in body:
        if kind == "int" and instruction.family in ("div", "rem") and _is_word(instruction):
            by = {r.name for r in registers_of(instruction.operands[-1])}
            again += bool(by) and (by <= known or (loops and not by & written))
            known |= by
        known -= destinations(instruction)
    return again


def _is_word(instruction: Instruction) -> bool:
    return instruction.modifiers[-1] in ("s32", "u32")


def overhead(block: BasicBlock) -> int:
    """Machine instructions, in tenths, that a loop of one block spends on being one."""
    counting = sum(i.family == "setp" or is_step(i) for i in block.body)
    return TENTHS * (1 + counting)


def chain(stretches: Sequence[RegionBlock], last: BasicBlock) -> int:
    """Cycles of the longest chain of results through these bodies, one behind the other; at least
    one for each slot. A warp issues in order, and ptxas brings what is independent together only
    over a short distance: an instruction waits until the one AHEAD before it is through."""
    issued, longest = 0, 0
    ready: dict[str, int] = {}
    through = deque([0] * AHEAD, AHEAD)
    floor = 0
    for stretch in stretches:
        for instruction, kind in stretch.body:
            mine, wait = _one(instruction, kind)
            issued += mine
            floor = max(floor, through[0])
            done = max((ready.get(name, 0) for name in sources(instruction)), default=0)
            done = max(floor, done) + wait
            if mine:
                through.append(done)
            for name in destinations(instruction):
                ready[name] = max(done, ready.get(name, 0)) if stretch.conditional else done
            longest = max(longest, done)
    match last.end:
        case Branch() | Switch() | Leave():
            longest += CYCLES["control"]
        case Suspend():
            longest += CYCLES["barrier"]
    return max(longest, issued // TENTHS)


def tensor_tenths(instruction: Instruction) -> int:
    """Time of the tensor cores, in tenths of m16n8k16 of 16-bit floats; 0 for an instruction that
    is not a product.

    A step works on 32 bytes of each row, whatever they hold, and is hardly faster on 16: measured
    on an H200.
    """
    shape = next((s for m in instruction.modifiers if (s := _SHAPE.fullmatch(m))), None)
    if shape is None or instruction.family not in ("mma", "wmma"):
        return 0
    if instruction.family == "wmma" and "mma" not in instruction.modifiers:
        return 0
    m, n, k = map(int, shape.groups())
    if "f64" in instruction.modifiers:
        return TENTHS * m * n * k // _DOUBLE_PRODUCTS
    types = [t for t in instruction.modifiers if t in _ROW_BITS]
    row_bytes = k * _ROW_BITS[types[1] if len(types) > 2 else "f16"] // 8
    step = _SHORT_STEP if row_bytes <= 16 else TENTHS * row_bytes // 32
    return step * m * n // 128


def _tensor(instruction: Instruction) -> tuple[int, int]:
    """wmma's products are two or more of the machine's, m16n8."""
    short = 0 < tensor_tenths(instruction) <= _SHORT_STEP
    shape = next((s for m in instruction.modifiers if (s := _SHAPE.fullmatch(m))), None)
    m, n = map(int, shape.groups()[:2]) if shape else (16, 8)
    products = max(1, m * n // 128)
    return products * TENTHS, 17 if short else CYCLES["tensor"]


def _one(instruction: Instruction, kind: str) -> tuple[int, int]:
    family, modifiers = instruction.family, instruction.modifiers
    if kind == "move":
        return _fetch(instruction), 0
    if family in _FREE:
        return 0, 0
    wide = bool({"s64", "u64", "b64", "f64"}.intersection(modifiers[-1:]))
    if family in ("div", "rem", "sqrt", "rcp") and "approx" not in modifiers:
        return _quotient(family, modifiers, kind, wide)
    if kind == "int":
        return _whole(family, wide)
    if kind == "special":
        once = "ftz" in modifiers or family == "cvt"
        return (TENTHS if once else 2 * TENTHS), CYCLES[kind]
    if kind == "tensor":
        return _tensor(instruction)
    if family in ("ldmatrix", "wmma"):
        return _of_matrices(instruction, kind)
    if wide and kind == "float":
        return 2 * TENTHS, 10
    if family == "st":
        return TENTHS, 0
    return TENTHS, CYCLES[kind]


def _of_matrices(instruction: Instruction, kind: str) -> tuple[int, int]:
    """Loads and stores of fragments."""
    accesses = machine_accesses(instruction.modifiers) or 1
    if "store" in instruction.modifiers:
        return accesses * TENTHS, 0
    return accesses * TENTHS, 33 if kind == "shared" else CYCLES[kind]


def _fetch(instruction: Instruction) -> int:
    """Parameters and numbers of threads and blocks are fetched, each by an instruction; other moves
    are none."""
    fetched = isinstance(instruction.operands[-1], Special) if instruction.operands else False
    return TENTHS if instruction.family == "ld" or fetched else 0


def _whole(family: str, wide: bool) -> tuple[int, int]:
    if family in _VOTES:
        return TENTHS, 12
    if family in _FUSED:
        return (10 if wide else 6), CYCLES["int"]
    if family in ("mul", "mad"):
        return (15 if wide else 8), CYCLES["int"]
    return 8, CYCLES["int"]


def _quotient(family: str, modifiers: tuple[str, ...], kind: str, wide: bool) -> tuple[int, int]:
    """Divisions and roots that are correctly rounded, and integer divisions."""
    if kind == "int":
        return (900, 400) if wide else (180, 110)
    if "full" in modifiers:
        return 4 * TENTHS, 36
    if wide:
        return 30 * TENTHS, 200
    return (9 * TENTHS, 60) if family == "div" else (10 * TENTHS, 50)
