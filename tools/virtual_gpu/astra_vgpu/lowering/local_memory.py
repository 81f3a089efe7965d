"""Local memory: which loads and stores stay in registers, because ptxas keeps what it can there.

A call's slots are in registers. So is an array whose every address is known at compile time, unless
a pointer to it is passed on. Small arrays of 32-bit words that are indexed at run time become
chains of selections if something is stored outside loops or at a known place, or if nothing is
loaded by index. The limits (the constants) were found from the stack frames that ptxas 13.0 reports
for 89 kernels for sm_90. Register spills do not show in PTX.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from astra_vgpu.lowering.basic_block_order import components
from astra_vgpu.lowering.control_flow import BasicBlock, destinations
from astra_vgpu.ptx.syntax import (
    Address,
    Immediate,
    Instruction,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
    registers_of,
)

MAX_SELECTIONS = 64
"""Elements times accesses that are made registers, outside loops."""
MAX_IN_LOOPS, MAX_ELEMENTS_IN_LOOPS = 20, 8
"""Most elements times accesses within loops, and most elements of an array indexed there."""
_WORDS = frozenset({"b32", "u32", "s32", "f32"})
_COPIES = frozenset({"mov", "cvta"})


@dataclass(frozen=True)
class _Base:
    """Where an address leads: into this variable, from this byte on."""

    variable: str
    offset: int
    known: bool = True
    """Whether the address is exactly there."""
    whole: bool = False
    """The variable's own address: what is added to it begins an array."""


@dataclass
class _Array:
    """A part of a variable: what one declaration in the source became."""

    variable: str
    start: int
    end: int
    accesses: list[Instruction] = field(default_factory=list)
    indexed: Counter[bool] = field(default_factory=Counter)
    """Accesses at addresses that are not known: within loops, and outside."""
    escapes: bool = False
    first_stores: int = 0
    """Stores at places that are known, or outside loops."""
    indexed_loads: int = 0

    def is_kept(self) -> bool:
        """Whether ptxas keeps the array in registers."""
        if self.escapes:
            return False
        if not self.indexed:
            return True
        elements = (self.end - self.start) // 4
        words = all(_WORDS.intersection(i.modifiers) for i in self.accesses)
        if not words or (self.indexed_loads and not self.first_stores):
            return False
        if self.indexed[True] and (
            elements > MAX_ELEMENTS_IN_LOOPS or self.indexed[True] * elements > MAX_IN_LOOPS
        ):
            return False
        return self.indexed[False] * elements <= MAX_SELECTIONS


def kept_in_registers(
    blocks: Sequence[BasicBlock], variables: Mapping[str, Variable]
) -> frozenset[int]:
    """id() of each load and store of local memory that is none in machine code.

    variables: those of the kernel, the .param slots of its calls among them.
    """
    local = {n: v for n, v in variables.items() if v.space == "local"}
    slots = {n for n, v in variables.items() if v.space == "param"}
    accesses = [
        (number, i)
        for number, block in enumerate(blocks)
        for i in block.body
        if i.family in ("ld", "st")
    ]
    kept = {id(i) for _, i in accesses if _symbol(_address(i)) in slots}
    if not local:
        return frozenset(kept)
    flow = _Flow(local, slots, blocks)
    arrays = flow.arrays()
    looping = _in_loops(blocks)
    for number, instruction in accesses:
        for base in flow.bases(_address(instruction)):
            array = _array_at(arrays, base)
            array.accesses.append(instruction)
            looped = number in looping
            array.first_stores += instruction.family == "st" and (base.known or not looped)
            if not base.known:
                array.indexed[looped] += 1
                array.indexed_loads += instruction.family == "ld"
    for base in flow.escaping:
        _array_at(arrays, base).escapes = True
    touching = {id(i) for array in arrays for i in array.accesses}
    memory = {id(i) for array in arrays if not array.is_kept() for i in array.accesses}
    return frozenset(kept | (touching - memory))


def _address(instruction: Instruction) -> Operand:
    return instruction.operands[1 if instruction.family == "ld" else 0]


def _symbol(operand: Operand) -> str:
    base = operand.base if isinstance(operand, Address) else operand
    return base.name if isinstance(base, Symbol) else ""


def _array_at(arrays: Sequence[_Array], base: _Base) -> _Array:
    mine = [a for a in arrays if a.variable == base.variable]
    return next((a for a in reversed(mine) if a.start <= base.offset), mine[0])


def _in_loops(blocks: Sequence[BasicBlock]) -> set[int]:
    return {
        member
        for members in components([list(block.successors) for block in blocks])
        if len(members) > 1 or members[0] in blocks[members[0]].successors
        for member in members
    }


class _Flow:
    """Where addresses of local variables go, by register and by slot of a call."""

    def __init__(
        self, local: Mapping[str, Variable], slots: set[str], blocks: Sequence[BasicBlock]
    ) -> None:
        self._local, self._slots = local, slots
        self._held: dict[str, set[_Base]] = {}
        self.escaping: set[_Base] = set()
        self._starts: dict[str, set[int]] = {name: set() for name in local}
        body = [i for block in blocks for i in block.body]
        self._written = Counter(name for i in body for name in destinations(i))
        before = -1
        while before != (before := sum(map(len, self._held.values())) + len(self.escaping)):
            for instruction in body:
                self._follow(instruction)

    def bases(self, operand: Operand) -> set[_Base]:
        """What an address or a register leads to."""
        if isinstance(operand, Address):
            step, base = operand.offset, operand.base
            return {_moved(b, step) for b in self.bases(base)}
        if isinstance(operand, Symbol) and operand.name in self._local:
            return {_Base(operand.name, operand.offset, whole=operand.offset == 0)}
        if isinstance(operand, Register):
            return self._held.get(operand.name, set())
        return set()

    def arrays(self) -> list[_Array]:
        arrays = []
        for name, variable in self._local.items():
            inside = sorted(at for at in self._starts[name] if 0 < at < variable.size)
            ends = [0, *inside, variable.size]
            arrays += [_Array(name, start, end) for start, end in pairwise(ends)]
        return arrays

    def _follow(self, instruction: Instruction) -> None:
        family, operands = instruction.family, instruction.operands
        if family in ("st", "atom", "red"):
            for value in operands[1:]:
                for item in value.items if isinstance(value, Vector) else (value,):
                    self._store(_symbol(operands[0]), self.bases(item))
        elif family == "ld":
            if (slot := _symbol(operands[1])) in self._slots:
                self._put(instruction, self._held.get(slot, set()))
        elif family in _COPIES:
            self._put(instruction, self.bases(operands[1]))
        else:
            self._compute(instruction)

    def _store(self, to: str, values: set[_Base]) -> None:
        """Calls that are calls in PTX are so in machine code."""
        self.escaping.update(values)
        if to in self._slots:
            self._held.setdefault(to, set()).update(values)

    def _compute(self, instruction: Instruction) -> None:
        sources = instruction.operands[1:]
        bases = {b for o in sources for r in registers_of(o) for b in self.bases(r)}
        if not bases:
            return
        step = sources[-1] if sources else None
        if instruction.family == "add" and isinstance(step, Immediate):
            for base in bases:
                if base.whole:
                    self._starts[base.variable].add(base.offset + int(step.value))
            self._put(instruction, {_moved(b, int(step.value)) for b in bases})
        else:
            self._put(instruction, set(map(_unknown, bases)))

    def _put(self, instruction: Instruction, values: set[_Base]) -> None:
        for operand in instruction.operands[:1]:
            for register in registers_of(operand):
                if register.bits != 64 or not values:
                    continue
                if self._written[register.name] > 1:
                    values = set(map(_unknown, values))
                self._held.setdefault(register.name, set()).update(values)


def _moved(base: _Base, step: int) -> _Base:
    if not base.known or (step == 0 and not base.whole):
        return base
    return _Base(base.variable, base.offset + step)


def _unknown(base: _Base) -> _Base:
    return _Base(base.variable, base.offset, known=False)
