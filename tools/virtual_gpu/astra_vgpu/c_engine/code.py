"""Translation of one instruction to C: opcode families and operands.

The NumPy engine has checked the instruction before. What this engine does not support is refused
by the same rule: every modifier is consumed exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from astra_vgpu.c_engine.steps import Step, Variables
from astra_vgpu.isa.clocks import CYCLES_PER_STEP
from astra_vgpu.lowering.float_bits import is_arithmetic
from astra_vgpu.lowering.shared_arrays import SharedArray
from astra_vgpu.numpy_engine.code import Place
from astra_vgpu.ptx.modifiers import Modifiers
from astra_vgpu.ptx.syntax import (
    Guard,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    type_bits,
)

Handler = Callable[["Code"], None]

FAMILIES: dict[tuple[str, str], Handler] = {}
"""Translations by opcode family and kind of type; the kinds are those of the NumPy engine."""

_AXES = {"x": 0, "y": 1, "z": 2}
_SPECIALS = {
    **{f"%tid.{axis}": f"w->tid[{n}][l]" for axis, n in _AXES.items()},
    **{f"%ntid.{axis}": f"w->launch->block[{n}]" for axis, n in _AXES.items()},
    **{f"%ctaid.{axis}": f"w->block[{n}]" for axis, n in _AXES.items()},
    **{f"%nctaid.{axis}": f"w->launch->grid[{n}]" for axis, n in _AXES.items()},
    "%laneid": "(uint32_t)l",
    "%warpid": "w->index",
    "%nwarpid": "w->warps",
    "%smid": "(uint32_t)(w->block_id % 132)",
    "%nsmid": "132u",
    "%gridid": "(uint64_t)1",
    "%lanemask_eq": "(1u << l)",
    "%lanemask_lt": "((1u << l) - 1)",
    "%lanemask_le": "(2u * (1u << l) - 1)",
    "%lanemask_gt": "~(2u * (1u << l) - 1)",
    "%lanemask_ge": "~((1u << l) - 1)",
    "%dynamic_smem_size": "w->launch->dynamic_shared",
    "%total_smem_size": "w->launch->shared_limit",
    "%reserved_smem_offset_1": "w->launch->reserved_at",
    "%envreg1": "((uint32_t)(w->launch->meeting_place >> 32))",
    "%envreg2": "((uint32_t)w->launch->meeting_place)",
    # Fiction, and different for each visit: `l` keeps them from being taken for constants.
    "%clock": f"((uint32_t)({CYCLES_PER_STEP} * ELAPSED(w)) + 0 * l)",
    "%clock_hi": "0u",
    "%clock64": f"({CYCLES_PER_STEP} * ELAPSED(w) + 0 * l)",
    "%globaltimer": "(ELAPSED(w) + 0 * l)",
    "%globaltimer_lo": "((uint32_t)ELAPSED(w) + 0 * l)",
}


def family(name: str, *kinds: str) -> Callable[[Handler], Handler]:
    """Registers the translation of an opcode family, for some kinds of type or for all."""

    def register(handler: Handler) -> Handler:
        for kind in kinds or ("",):
            FAMILIES[name, kind] = handler
        return handler

    return register


def c_type(type_name: str) -> str:
    """The C type that computes with a PTX type; halves, alone or packed, are raw bits."""
    if type_name in ("f32", "f64"):
        return {"f32": "float", "f64": "double"}[type_name]
    if type_name == "pred":
        return "uint32_t"
    return f"{'int' if type_name[0] == 's' else 'uint'}{type_bits(type_name)}_t"


def raw_type(bits: int) -> str:
    """The C type of a register; predicates are 0 or 1."""
    return "uint32_t" if bits == 1 else f"uint{bits}_t"


def constant(value: int, bits: int) -> str:
    return f"(uint{bits}_t){value % (1 << bits)}ull"


def typed(raw: str, type_name: str) -> str:
    """Raw bits, already of the type's width, as a value of the type."""
    if type_name in ("f32", "f64"):
        return f"{type_name}({raw})"
    return f"({c_type(type_name)})({raw})" if type_name[0] == "s" else raw


def to_raw(expression: str, type_name: str, bits: int) -> str:
    """A value of the type as the bits of a register, extended by its sign if the type has one."""
    if type_name in ("f32", "f64"):
        return f"bits{type_name[1:]}({expression})"
    if type_name == "pred" or type_bits(type_name) == bits:
        return expression
    return f"({c_type(type_name)})({expression})"


@dataclass(kw_only=True)
class Unit:
    """What all instructions of a kernel share while it is translated."""

    kernel: str
    local: set[str]
    """Registers that only one basic block uses."""
    places: Mapping[str, Place]
    param_bytes: int
    levels: Mapping[int, tuple[int, ...]]
    """Rounds in which each global load is waited for, by its id(): block_costs.load_levels."""
    in_registers: frozenset[int]
    """id() of each access to local memory that ptxas keeps in registers:
    local_memory.kept_in_registers."""
    runs: Mapping[int, tuple[int, ...]]
    """Runs of stores that L1 merges, by id() of the store: store_merging.store_runs."""
    looks: bool
    """Whether a loop of the kernel looks at what others store: ordered_accesses.looks_in_loops."""
    float_stores: Mapping[int, str]
    """Float type of what a store writes, by its id(): float_stores.float_stores."""
    read_as_bits: frozenset[str]
    """Registers in which NaNs have a GPU's bits: float_bits.registers_read_as_bits."""
    sums: frozenset[int]
    """id() of each atomic update whose result nothing reads: ordered_accesses.unread_updates."""
    deciding: frozenset[int]
    """id() of each loose load whose value decides something: ordered_accesses.deciding_loads."""
    data_reads: frozenset[int]
    """id() of each ordered read that looks at no flag: data_reads.data_reads."""
    reached: Mapping[int, tuple[SharedArray, ...]]
    """Shared arrays that an instruction may access, by its id(): shared_arrays.reached_arrays."""
    variables: Variables = field(default_factory=Variables)
    numbers: dict[str, int] = field(default_factory=dict)
    """Number of each register's variable, by the register's name."""
    instructions: list[Instruction] = field(default_factory=list)
    """Instructions that can fault; C knows them by their place here."""
    sites: list[str] = field(default_factory=list)
    barriers: list[str] = field(default_factory=list)
    polls: list[str] = field(default_factory=list)
    """Tests of mbarriers."""
    symbols: list[str] = field(default_factory=list)
    """Variables of the module whose addresses the kernel wants."""
    tables: list[str] = field(default_factory=list)
    """Constants in C, each a declaration."""
    serial: bool = False
    """Blocks talk to each other through memory: they run one after the other."""

    def number(self, register: Register) -> int:
        if register.name not in self.numbers:
            self.numbers[register.name] = self.variables.new(
                raw_type(register.bits), crossing=register.name not in self.local
            )
        return self.numbers[register.name]

    def instruction(self, instruction: Instruction) -> int:
        if instruction not in self.instructions[-1:]:
            self.instructions.append(instruction)
        return len(self.instructions) - 1

    def table(self, c_type: str, items: str) -> str:
        """The name of an array of constants."""
        tail = f"[] = {{{items}}};"
        for number, known in enumerate(self.tables):
            if known.endswith(tail) and f" {c_type} " in known:
                return f"table{number}"
        self.tables.append(f"static const {c_type} table{len(self.tables)}{tail}")
        return f"table{len(self.tables) - 1}"

    def symbol(self, name: str) -> int:
        if name not in self.symbols:
            self.symbols.append(name)
        return self.symbols.index(name)


class Code(Modifiers):
    def __init__(self, unit: Unit, instruction: Instruction) -> None:
        super().__init__(unit.kernel, instruction)
        self.unit = unit
        self.steps: list[Step] = []

    def translate(self) -> Sequence[Step]:
        """The steps of this instruction. Raises PtxUnsupported."""
        family_name = self.instruction.family
        handler = FAMILIES.get((family_name, self.kind)) or FAMILIES.get((family_name, ""))
        if handler is None:
            raise self.refuse("this instruction on the C engine")
        handler(self)
        self.done()
        return self.steps

    # Reading

    def read(self, index: int, type_name: str) -> str:
        return self.reader(self.operand(index), type_name)

    def reader(self, operand: Operand, type_name: str) -> str:
        """An operand as an expression of the type."""
        match operand:
            case Register():
                return self._register(operand, type_name)
            case Negated(register=register):
                return f"(x{self.unit.number(register)} ^ 1)"
            case Immediate(value=value):
                if type_name == "pred":
                    return str(int(bool(value)))
                return typed(constant(value, type_bits(type_name)), type_name)
            case Special(name=name) if name in _SPECIALS:
                return typed(f"({raw_type(type_bits(type_name))}){_SPECIALS[name]}", type_name)
            case Symbol():
                return typed(self.symbol(operand, type_bits(type_name)), type_name)
            case _:
                raise self.refuse("this form of operand on the C engine")

    def _register(self, register: Register, type_name: str) -> str:
        name, bits = f"x{self.unit.number(register)}", type_bits(type_name)
        narrowed = name if register.bits == bits else f"({raw_type(bits)}){name}"
        return typed(narrowed, type_name)

    def symbol(self, symbol: Symbol, bits: int) -> str:
        """The address of a variable, in its own space."""
        place = self.unit.places[symbol.name]
        offset = place.offset + symbol.offset
        if place.space in ("global", "const"):
            base = f"w->symbols[{self.unit.symbol(symbol.name)}]"
            return f"({base} + {constant(offset, 64)})"
        return constant(offset, bits)

    @property
    def guard(self) -> str:
        """The instruction's own condition as 0 or 1; empty without."""
        guard = self.instruction.guard
        return "" if guard is None else self.condition(guard)

    def condition(self, guard: Guard) -> str:
        name = f"x{self.unit.number(guard.register)}"
        return f"({name} ^ 1)" if guard.negated else name

    # Writing

    def write(self, index: int, type_name: str, value: str, *, scalar: bool = False) -> None:
        self.put(self.operand(index), type_name, value, scalar=scalar)

    def put(self, operand: Operand, type_name: str, value: str, *, scalar: bool = False) -> None:
        """The value into a register, for the active lanes; others keep theirs."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register):
            raise self.refuse("this destination on the C engine")
        number = self.unit.number(operand)
        raw = to_raw(value, type_name, operand.bits)
        if operand.name in self.unit.read_as_bits and is_arithmetic(self.instruction):
            raw = f"one_nan({raw})"
        self.steps.append(
            Step(
                f"({raw})",
                number,
                guard=self.guard,
                masked=operand.name not in self.unit.local,
                scalar=scalar,
            )
        )

    def keep(self, value: str, c_type: str, *, scalar: bool = False) -> int:
        """The value in a new temporary."""
        number = self.unit.variables.new(c_type)
        self.steps.append(Step(f"({value})", number, scalar=scalar))
        return number

    def array(self, value: str, c_type: str = "uint32_t") -> str:
        """The value of all lanes in an array, for a step of the warp."""
        return f"X{self.keep(value, c_type)}"

    def results(self, c_type: str = "uint32_t") -> int:
        """A temporary that a step of the warp fills."""
        return self.unit.variables.new(c_type)

    def lanes(self, statement: str, *, scalar: bool = False) -> None:
        self.steps.append(Step(statement, scalar=scalar))

    def warp(self, statement: str) -> None:
        self.steps.append(Step(statement, warp=True))

    def active(self) -> str:
        """The lanes that carry out the instruction, its guard applied."""
        return f"(m & mask_of({self.array(self.guard)}))" if self.guard else "m"

    @property
    def place(self) -> int:
        """The instruction's number, for faults."""
        return self.unit.instruction(self.instruction)


def elementwise(
    code: Code, template: str, type_name: str, result: str = "", *, scalar: bool = False
) -> None:
    """d = template with {0}, {1}, ... replaced by the sources: all operands of one type."""
    sources = [code.read(index, type_name) for index in range(1, len(code.operands))]
    code.write(0, result or type_name, template.format(*sources), scalar=scalar)
