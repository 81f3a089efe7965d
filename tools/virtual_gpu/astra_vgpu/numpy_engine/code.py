"""Translation of one instruction to a step on arrays of lanes: families and operands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from astra_vgpu.isa.clocks import CLOCKS
from astra_vgpu.lowering.float_bits import is_arithmetic
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.dtypes import (
    Array,
    as_type,
    bits_of,
    constant,
    dtype_of,
    resize,
    unsigned,
)
from astra_vgpu.numpy_engine.frame import Active, Frame
from astra_vgpu.numpy_engine.rounding import one_nan
from astra_vgpu.ptx.modifiers import Modifiers, needs_gpu
from astra_vgpu.ptx.syntax import (
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
)

Read = Callable[[Frame], Array]
Write = Callable[[Frame, Array], None]
Step = Callable[[Frame], None]
Handler = Callable[["Code"], Step]

FAMILIES: dict[tuple[str, str], Handler] = {}
"""Translations by opcode family and kind of type: int, f32, f64, half, pred; "" serves every
kind."""


def family(name: str, *kinds: str) -> Callable[[Handler], Handler]:
    """Registers the translation of an opcode family, for some kinds of type or for all."""

    def register(handler: Handler) -> Handler:
        for kind in kinds or ("",):
            FAMILIES[name, kind] = handler
        return handler

    return register


@dataclass(frozen=True)
class Place:
    """Where a symbol lies: global, const, shared, local, param or slot (of a call)."""

    space: str
    offset: int = 0


@dataclass(kw_only=True)
class Unit:
    """What all instructions of a kernel share while it is translated."""

    kernel: str
    local: set[str]
    """Registers that only one basic block uses: written without a mask."""
    places: Mapping[str, Place]
    levels: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Rounds in which each global load is waited for, by its id(): block_costs.load_levels."""
    in_registers: frozenset[int] = frozenset()
    """id() of each access to local memory that ptxas keeps in registers:
    local_memory.kept_in_registers."""
    runs: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Runs of stores that L1 merges, by id() of the store: store_merging.store_runs."""
    looks: bool = True
    """Whether a loop of the kernel looks at what others store: ordered_accesses.looks_in_loops."""
    deciding: frozenset[int] = frozenset()
    """id() of each loose load whose value decides something: ordered_accesses.deciding_loads."""
    data_reads: frozenset[int] = frozenset()
    """id() of each ordered read that looks at no flag: data_reads.data_reads."""
    float_stores: Mapping[int, str] = field(default_factory=dict)
    """Float type of what a store writes, by its id(): float_stores.float_stores."""
    read_as_bits: frozenset[str] = frozenset()
    """Registers in which NaNs have a GPU's bits: float_bits.registers_read_as_bits."""
    sums: frozenset[int] = frozenset()
    """id() of each atomic update whose result nothing reads: ordered_accesses.unread_updates."""
    numbers: dict[str, int] = field(default_factory=dict)
    widths: list[int] = field(default_factory=list)
    """Bits of each register, by number."""

    def space(self, symbol: str) -> str:
        """Space of a variable; empty for any other name."""
        place = self.places.get(symbol)
        return place.space if place else ""

    def number(self, register: Register) -> int:
        if register.name not in self.numbers:
            self.numbers[register.name] = len(self.widths)
            self.widths.append(register.bits)
        return self.numbers[register.name]


class Code(Modifiers):
    def __init__(self, unit: Unit, instruction: Instruction) -> None:
        super().__init__(unit.kernel, instruction)
        self.unit = unit
        guard = instruction.guard
        self._guard = None if guard is None else self._predicate(guard.register, guard.negated)

    def translate(self) -> Step:
        """The step of this instruction. Raises PtxUnsupported."""
        self.check_place()
        handler = FAMILIES.get((self.instruction.family, self.kind)) or FAMILIES.get(
            (self.instruction.family, "")
        )
        if handler is None:
            raise self.refuse("this instruction")
        step = handler(self)
        self.done()
        return step

    def check_place(self) -> None:
        """Refuses what no machine without a GPU will ever have."""
        if needs_gpu(self.instruction):
            raise self.refuse("an instruction that needs a GPU")

    def read(self, index: int, type_name: str) -> Read:
        return self.reader(self.operand(index), dtype_of(type_name))

    def reader(self, operand: Operand, dtype: Any) -> Read:
        match operand:
            case Register():
                return self._register(operand, dtype)
            case Negated(register=register):
                return self._predicate(register, True)
            case Immediate():
                value = constant(operand, dtype)
                if value is None:
                    raise self.refuse("this constant")
                return lambda f, value=value: value  # type: ignore[misc]
            case Special(name=name):
                return self._special(name, dtype)
            case Symbol(name=name) if self.unit.space(name) != "slot":
                return self.symbol(operand, dtype)
            case _:
                raise self.refuse("this form of operand")

    def _register(self, register: Register, dtype: Any) -> Read:
        number = self.unit.number(register)
        width = bits_of(dtype)
        if register.bits < width or (width == 1) != (register.bits == 1):
            raise self.refuse(f"a {register.type} register as {width} bits")
        if register.bits > width:
            raw = unsigned(register.bits)
            return lambda f: resize(as_type(f.registers[number], raw), dtype)

        def read(f: Frame) -> Array:
            value = f.registers[number]
            return value if value.dtype is dtype else value.view(dtype)

        return read

    def _predicate(self, register: Register, negated: bool) -> Read:
        number = self.unit.number(register)
        if register.type != "pred":
            raise self.refuse("a guard that is not a predicate")
        if negated:
            return lambda f: ~f.registers[number]
        return lambda f: f.registers[number]

    def _special(self, name: str, dtype: Any) -> Read:
        if name not in machine.SPECIALS:
            raise self.refuse(f"special register {name}")
        if name in CLOCKS:
            return lambda f: resize(machine.clock(f, name), dtype)
        return lambda f: resize(f.special(name), dtype)

    def symbol(self, symbol: Symbol, dtype: Any) -> Read:
        """The address of a variable, in its own space; it wraps in the bits of `dtype`."""
        name, most = symbol.name, 1 << bits_of(dtype)
        offset = self.offset_of(name) + symbol.offset
        if self.unit.space(name) in ("global", "const"):
            return lambda f: np.full((1, 1), (f.symbols[name] + offset) % most, dtype)
        value = np.full((1, 1), offset % most, dtype)
        return lambda f: value

    def offset_of(self, name: str) -> int:
        """Where a variable lies in its space. Raises PtxUnsupported for one that is not there."""
        place = self.unit.places.get(name)
        if place is None:
            raise self.refuse(f"the symbol {name}")
        return place.offset

    def write(self, index: int, type_name: str) -> Write:
        return self.writer(self.operand(index), dtype_of(type_name))

    def writer(self, operand: Operand, dtype: Any) -> Write:
        """Takes the result of the active lanes into a register; others keep theirs.

        A result narrower than its register is extended by the sign of its type.
        """
        if isinstance(operand, Sink):
            return lambda f, value: None
        if not isinstance(operand, Register):
            raise self.refuse("this destination")
        width = bits_of(dtype)
        if register_mismatch(operand, width):
            raise self.refuse(f"a {operand.type} register for {width} bits")
        put = self._put(self.unit.number(operand), operand.name in self.unit.local)
        if operand.bits > width:
            wide = unsigned(operand.bits)
            return lambda f, value: put(f, resize(value, wide))
        if operand.name in self.unit.read_as_bits and is_arithmetic(self.instruction):
            return lambda f, value: put(f, one_nan(value))
        return put

    def _put(self, number: int, local: bool) -> Write:
        guard = self._guard

        def plain(f: Frame, value: Array) -> None:
            f.registers[number] = value

        def masked(f: Frame, value: Array) -> None:
            if not f.full:
                value = np.where(f.active.mask, value, as_type(f.registers[number], value.dtype))
            f.registers[number] = value

        def guarded(f: Frame, value: Array) -> None:
            assert guard is not None
            chosen = guard(f) if local or f.full else guard(f) & f.active.mask
            f.registers[number] = np.where(chosen, value, as_type(f.registers[number], value.dtype))

        if guard is not None:
            return guarded
        return plain if local else masked

    @property
    def active(self) -> Callable[[Frame], Active]:
        """The lanes that carry out the instruction, its guard applied."""
        guard = self._guard
        if guard is None:
            return lambda f: f.active

        def narrowed(f: Frame) -> Active:
            mask = f.active.mask & guard(f)
            return Active(mask, int(np.count_nonzero(mask)))

        return narrowed


def register_mismatch(register: Register, width: int) -> bool:
    return register.bits < width or (width == 1) != (register.bits == 1)


def _operands(compute: Callable[..., Array]) -> int:
    """How many a function of lanes takes: those without a default."""
    if isinstance(compute, np.ufunc):
        return compute.nin
    known = inspect.signature(compute).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in known):
        return 0
    return sum(p.default is p.empty for p in known)


def elementwise(
    code: Code, compute: Callable[..., Array], type_name: str, result: str = ""
) -> Step:
    """d = compute(a, b, ...), lane by lane: all operands of one type."""
    write = code.write(0, result or type_name)
    if (wanted := _operands(compute)) and len(code.operands) != 1 + wanted:
        raise code.refuse("this number of operands")
    reads = [code.read(index, type_name) for index in range(1, len(code.operands))]
    if len(reads) == 1:
        a = reads[0]
        return lambda f: write(f, compute(a(f)))
    if len(reads) == 2:
        a, b = reads
        return lambda f: write(f, compute(a(f), b(f)))
    if len(reads) == 3:
        a, b, c = reads
        return lambda f: write(f, compute(a(f), b(f), c(f)))
    raise code.refuse("this number of operands")
