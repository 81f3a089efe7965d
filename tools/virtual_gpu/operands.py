"""Operands against the types that an instruction wants, as ptxas checks them.

Both engines keep registers as bits and need no types; a text that mixes them up is no PTX all the
same. Rules of the PTX ISA (operand type checking, relaxed for loads, stores and conversions), as
ptxas 13.0 applies them. What an instruction of a family that is not listed here wants is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from astra_chat.tools.virtual_gpu.modifiers import is_type
from astra_chat.tools.virtual_gpu.syntax import (
    Address,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
    type_bits,
)

_SHORT = frozenset("ldmatrix stmatrix mbarrier cp wmma".split())
"""Families that work on shared memory without saying so, or on two spaces."""
_WIDER = "~"
"""Before a type: a register of more bits will do."""
_ADDRESS = "address"
_LONG_SPECIALS = ("%clock64", "%globaltimer")
_NAMES_VARIABLES = frozenset({"mov", "cvta"})
_NO_DISCARD = frozenset("mov cvt setp set selp slct ld".split())
Wanted = Callable[[Sequence[str], Sequence[str], int], list[str]]
"""(modifiers, types among them, operands) -> the type of each operand."""


def mistake(instruction: Instruction) -> str:
    """What is wrong with the operands; empty where nothing is, or the family is not known."""
    for operand in instruction.operands:
        if wrong := _wrong_address(instruction, operand):
            return wrong
    if instruction.family in ("mma", "wmma"):
        return _wrong_fragments(instruction)
    types = [m for m in instruction.modifiers if is_type(m)]
    wanted = _WANTED.get(instruction.family)
    if wanted is None or not (types or instruction.family in _UNTYPED):
        return ""
    found = wanted(instruction.modifiers, types, len(instruction.operands))
    if not found:
        return ""
    if len(instruction.operands) != len(found):
        return "this number of operands"
    pairs = zip(instruction.operands, found, strict=True)
    return next(filter(None, (_wrong(instruction.family, *pair) for pair in pairs)), "")


def _wrong_address(instruction: Instruction, operand: Operand) -> str:
    """Bits of 32 or 64, an integer, or the name of a variable."""
    if not isinstance(operand, Address):
        return ""
    base = operand.base
    spaces = {m.partition("::")[0] for m in instruction.modifiers}
    least = 32 if spaces & {"shared", "local", "param"} or instruction.family in _SHORT else 64
    if isinstance(base, Immediate) and "local" not in instruction.modifiers:
        return "a number as an address"
    if isinstance(base, Register) and (base.type[0] not in "bus" or base.bits < least):
        return f"{base.name} of type .{base.type} as an address"
    return ""


def _wrong_fragments(instruction: Instruction) -> str:
    """A fragment's registers are alike, and of 32 bits but for those of doubles."""
    for operand in instruction.operands:
        items = operand.items if isinstance(operand, Vector) else ()
        kinds = {item.type if isinstance(item, Register) else "" for item in items}
        if len(kinds) > 1 or any(not kind or type_bits(kind) < 32 for kind in kinds):
            return "a fragment of unlike registers"
        if kinds & {"b64", "u64", "s64"}:
            return "a fragment of registers of 64 bits"
    return ""


def _wrong(family: str, operand: Operand, wanted: str) -> str:
    type_name = wanted.removeprefix(_WIDER)
    if wanted == _ADDRESS:
        return ""
    for each, in_vector in _parts(operand, type_name):
        if not _fits(family, each, type_name, wanted != type_name, in_vector):
            return f"an operand that does not fit .{type_name}"
    return ""


def _parts(operand: Operand, type_name: str) -> Iterator[tuple[Operand, bool]]:
    """An operand's values, and whether they are elements of a vector."""
    if isinstance(operand, Vector):
        yield from ((item, True) for item in operand.items)
    elif isinstance(operand, Pair):
        yield operand.first, False
    else:
        yield operand, False


def _fits(family: str, operand: Operand, type_name: str, wider: bool, in_vector: bool) -> bool:
    match operand:
        case Register(type=declared):
            if in_vector:
                return _element_fits(family, declared, type_name)
            return _register_fits(declared, type_name, wider)
        case Negated():
            return type_name == "pred"
        case Immediate(kind=kind):
            return in_vector or _number_fits(kind, type_name)
        case Special(name=name):
            long = name in _LONG_SPECIALS
            return family == "mov" and type_name != "pred" and (long or type_bits(type_name) < 64)
        case Sink():
            return in_vector or family not in _NO_DISCARD
        case Symbol():
            return family in _NAMES_VARIABLES
        case _:
            return True


def _element_fits(family: str, declared: str, type_name: str) -> bool:
    """A vector's elements are checked for their size only; those of mov make up the type."""
    if declared == "pred":
        return False
    have, want = type_bits(declared), type_bits(type_name)
    return have < want if family == "mov" else have >= want


def _register_fits(declared: str, type_name: str, wider: bool) -> bool:
    if "pred" in (declared, type_name):
        return declared == type_name
    have, want = type_bits(declared), type_bits(type_name)
    if have < want or (have > want and not (wider and _kind(declared) != "float")):
        return False
    kinds = {_kind(declared), _kind(type_name)}
    return "bits" in kinds or kinds == {"whole"} or declared == type_name


def _kind(type_name: str) -> str:
    if type_name.startswith("b") and not type_name.startswith("bf"):
        return "bits"
    return "whole" if type_name[0] in "us" else "float"


def _number_fits(kind: str, type_name: str) -> bool:
    """Floats go for floats and bits, whole numbers for all but floats."""
    if kind == "int":
        return type_name == "pred" or _kind(type_name) != "float"
    return type_name in ("f32", "f64", "b32", "b64")


def _all(number: int) -> Wanted:
    return lambda _, types, __: [types[-1]] * number


def _extreme(_: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    return [types[-1]] * (4 if count == 4 else 3)


def _product(modifiers: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    """mul and mad, .wide too."""
    number = 4 if count == 4 else 3
    single = types[-1]
    if "wide" not in modifiers:
        return [single] * number
    double = f"{single[0]}{2 * type_bits(single)}"
    return [double, single, single, double][:number]


def _setp(_: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    return ["pred", types[-1], types[-1], "pred"][: max(count, 3)]


def _set(_: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    return [types[0], types[-1], types[-1], "pred"][: max(count, 3)] if len(types) == 2 else []


def _cvt(modifiers: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    if len(types) != 2 or any(m.startswith(("e4m3", "e5m2", "ue8m0")) for m in modifiers):
        return []
    target = "b32" if types[0] == "tf32" else types[0]
    if target.endswith("x2"):
        return [target, types[1], types[1]]
    return [_WIDER + target, _WIDER + types[1]]


def _shuffled(_: Sequence[str], __: Sequence[str], count: int) -> list[str]:
    return ["b32", "b32", "u32", "u32", "u32"] if count == 5 else []


def _voted(modifiers: Sequence[str], _: Sequence[str], __: int) -> list[str]:
    return ["b32" if "ballot" in modifiers else "pred", "pred", "u32"]


def _atomic(modifiers: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    if any(m in ("v2", "v4", "v8") for m in modifiers) or "noftz" in modifiers:
        return []
    return [types[-1], _ADDRESS, *[types[-1]] * (count - 2)] if count > 2 else []


def _reduced(modifiers: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    found = _atomic(modifiers, types, count + 1)
    return found[1:]


def _loaded(_: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    return [_WIDER + types[-1], _ADDRESS] if count == 2 and types[-1] != "b128" else []


def _stored(_: Sequence[str], types: Sequence[str], count: int) -> list[str]:
    return [_ADDRESS, _WIDER + types[-1]] if count == 2 and types[-1] != "b128" else []


def _barrier(modifiers: Sequence[str], _: Sequence[str], count: int) -> list[str]:
    if "red" in modifiers or "warp" in modifiers:
        return []
    return ["u32"] * count


def _fixed(*wanted: str) -> Wanted:
    """T stands for the last type."""
    return lambda _, types, __: [types[-1] if w == "T" else w for w in wanted]


_UNTYPED = frozenset({"vote", "bar", "barrier"})
_WANTED: dict[str, Wanted] = {
    **dict.fromkeys("not cnot neg abs rcp sqrt rsqrt ex2 lg2 sin cos tanh brev".split(), _all(2)),
    **dict.fromkeys("and or xor div rem mul24 addc subc copysign add sub".split(), _all(3)),
    **dict.fromkeys("fma sad mad24 madc".split(), _all(4)),
    **dict.fromkeys("min max".split(), _extreme),
    **dict.fromkeys("mul mad".split(), _product),
    **dict.fromkeys("shl shr".split(), _fixed("T", "T", "u32")),
    **dict.fromkeys("popc clz bfind".split(), _fixed("u32", "T")),
    **dict.fromkeys("dp4a dp2a".split(), _fixed("u32", "u32", "u32", "u32")),
    "bfe": _fixed("T", "T", "u32", "u32"), "bfi": _fixed("T", "T", "T", "u32", "u32"),
    "shf": _fixed("b32", "b32", "b32", "u32"), "prmt": _fixed("b32", "b32", "b32", "b32"),
    "lop3": _fixed("b32", "b32", "b32", "b32", "u32"), "bmsk": _fixed("b32", "u32", "u32"),
    "szext": _fixed("T", "T", "u32"), "testp": _fixed("pred", "T"),
    "setp": _setp, "set": _set, "selp": _fixed("T", "T", "T", "pred"),
    "slct": lambda _, t, __: [t[0], t[0], t[0], t[1]] if len(t) == 2 else [],
    "cvt": _cvt, "mov": _all(2), "cvta": _all(2), "ld": _loaded, "st": _stored,
    "shfl": _shuffled, "vote": _voted, "redux": _fixed("T", "T", "u32"),
    "bar": _barrier, "barrier": _barrier, "atom": _atomic, "red": _reduced,
    "activemask": _fixed("b32"),
}  # fmt: skip
