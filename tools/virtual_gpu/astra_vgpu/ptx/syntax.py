"""PTX as values: operands, instructions, variables, functions, kernels, modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Register:
    name: str
    """Unique in its function: a name declared again in an inner scope carries a suffix."""
    type: str
    """Type as declared: pred, b16, b32, f32, ..."""

    @property
    def bits(self) -> int:
        return type_bits(self.type)


@dataclass(frozen=True, slots=True)
class Special:
    """A read-only register of the machine: %tid.x."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    value: int
    """The integer, or the bits of the float."""
    kind: str = "int"
    """int, f32 or f64."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, a parameter, a label or a function."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    base: Register | Symbol | Immediate
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two destinations: d|p."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """!p"""

    register: Register


@dataclass(frozen=True, slots=True)
class Group:
    """Arguments or results of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """The destination `_`: the result is dropped."""


Operand = Register | Special | Immediate | Symbol | Address | Vector | Pair | Negated | Group | Sink


@dataclass(frozen=True, slots=True)
class Guard:
    """@p or @!p"""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    opcode: str
    """Opcode with all modifiers: ld.global.nc.b16."""
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: int
    """Line in the PTX text, from 1."""
    source: str = ""
    """Where it comes from: "silu.cu:16" or, inlined, "silu.cu:4, inlined at silu.cu:16"; empty
    without -lineinfo."""
    text: str = ""
    own_lines: str = ""
    """The line of the program's own that it comes from, that of the call it is inlined at, and so
    on (SourceFiles.own_lines)."""

    @property
    def place(self) -> str:
        """Where it is, and its text."""
        source = f"{self.source}, " if self.source else ""
        return f"{source}PTX line {self.line}: {self.text}"

    @property
    def family(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        return tuple(self.opcode.split(".")[1:])


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    nounroll: bool = False
    """Whether `.pragma "nounroll"` stands behind it: ptxas leaves that loop as it is."""


Statement = Instruction | Label


@dataclass(frozen=True, slots=True)
class Relocation:
    """Eight bytes of an initial value that hold the address of a symbol."""

    at: int
    symbol: str
    addend: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A .global, .const, .shared, .local or .param variable."""

    name: str
    space: str
    size: int
    """Bytes; 0 for an `extern __shared__ x[]`."""
    align: int
    initial: bytes = b""
    """Empty: zeros. Else exactly `size` bytes."""
    relocations: tuple[Relocation, ...] = ()
    external: bool = False
    type: str = ""
    """Type of an element, as declared."""


@dataclass(frozen=True, slots=True)
class Param:
    name: str
    offset: int
    size: int
    align: int
    type: str = ""
    """Type of an element, as declared."""


@dataclass(eq=False)
class Function:
    """A .func: inlined into the kernels that call it. Without body: external."""

    name: str
    params: tuple[Param, ...] = ()
    returns: tuple[Param, ...] = ()
    body: list[Statement] = field(default_factory=list)
    variables: dict[str, Variable] = field(default_factory=dict)
    """Variables declared in the body: .local, .shared and the .param slots of calls."""
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """.branchtargets by label."""
    call_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Functions that .calltargets name, by label."""
    prototypes: dict[str, tuple[Variable, ...]] = field(default_factory=dict)
    """.callprototype by label: results, then parameters."""
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """maxntid, reqntid, minnctapersm, ... with their numbers."""
    defined: bool = True
    external: bool = False
    """Declared `.extern`: the machine may have it."""


@dataclass(eq=False)
class Kernel(Function):
    """A .entry."""

    shared: int = 0
    """Static shared memory in bytes, that of called functions included."""

    @property
    def param_bytes(self) -> int:
        return max((param.offset + param.size for param in self.params), default=0)

    @property
    def max_threads(self) -> int | None:
        """From __launch_bounds__; None without."""
        for name in ("maxntid", "reqntid"):
            if name in self.directives:
                product = 1
                for extent in self.directives[name]:
                    product *= extent
                return product
        return None


@dataclass(eq=False)
class Module:
    """One PTX text."""

    target: str
    kernels: dict[str, Kernel]
    functions: dict[str, Function]
    globals: dict[str, Variable]
    """Variables of module scope in .global and .const."""
    shared: dict[str, Variable]
    """Variables of module scope in .shared."""
    sources: dict[str, str] = field(default_factory=dict)
    """Paths of the program's own files, by the names that Instruction.source gives them."""


def type_bits(type_name: str) -> int:
    """Width of a PTX type: type_bits("f16x2") == 32; a predicate has 1."""
    if type_name == "pred":
        return 1
    if type_name.endswith("x2"):
        return 2 * type_bits(type_name[:-2])
    return int(type_name.lstrip("busft"))


def registers_of(operand: Operand) -> Iterator[Register]:
    """All registers that an operand names."""
    match operand:
        case Register():
            yield operand
        case Address(base=Register() as base):
            yield base
        case Negated(register=register):
            yield register
        case Pair(first=first, second=second):
            yield from registers_of(first)
            yield from registers_of(second)
        case Vector(items=items) | Group(items=items):
            for item in items:
                yield from registers_of(item)
        case _:
            return


def rename(
    operand: Operand, registers: Mapping[str, Register], symbols: Mapping[str, str]
) -> Operand:
    """The operand with registers and symbols replaced; names in neither mapping stay."""
    match operand:
        case Register(name=name):
            return registers.get(name, operand)
        case Symbol(name=name, offset=offset):
            return Symbol(symbols.get(name, name), offset)
        case Address(base=base, offset=offset):
            renamed = rename(base, registers, symbols)
            assert isinstance(renamed, Register | Symbol | Immediate)
            return Address(renamed, offset)
        case Negated(register=register):
            return Negated(registers.get(register.name, register))
        case Pair(first=first, second=second):
            return Pair(rename(first, registers, symbols), rename(second, registers, symbols))
        case Vector(items=items):
            return Vector(tuple(rename(item, registers, symbols) for item in items))
        case Group(items=items):
            return Group(tuple(rename(item, registers, symbols) for item in items))
        case _:
            return operand
