"""Checks operands against signatures.py, as ptxas does.

Both engines keep registers as bits and need no types; a text that mixes types is still not PTX.
Rules of the PTX ISA (operand type checking, relaxed for loads, stores and conversions), as ptxas
13.0 applies them. Operands of families that are not listed are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from astra_vgpu.ptx.constant_ranges import out_of_range
from astra_vgpu.ptx.signatures import forms
from astra_vgpu.ptx.syntax import (
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
    registers_of,
    type_bits,
)

_LONG_SPECIALS = ("%clock64", "%globaltimer")
_PLACES = ("%tid", "%ntid", "%ctaid", "%nctaid")
"""Special registers that 16 bits will do for."""
_NAMES_VARIABLES = frozenset({"mov", "cvta"})
_DISCARDS = frozenset("setp atom lop3".split())
"""Families whose result may be `_`."""
_PAIRS = frozenset("setp shfl match lop3 elect".split())
"""Families that may have two results."""
_MAX_BITS = 64
_SPACES = ("global", "const", "shared", "local", "param")
_GENERIC = frozenset({"global", "shared", "local"})
"""Spaces that a variable's name may stand for where no space is named."""
_INSIDE = {"param": {"param", "slot"}}
Space = Callable[[str], str]
"""Space of a variable by its name; empty for any other name."""


def mistake(instruction: Instruction, space: Space = lambda _: "") -> str:
    """What is wrong with the operands; empty where nothing is, or the family is not known."""
    if "L2::cache_hint" in instruction.modifiers:
        policy = instruction.operands[-1] if instruction.operands else Sink()
        if not (isinstance(policy, Immediate | Register) and _fits("", policy, "u64")):
            return "no cache policy of 64 bits"
        instruction = replace(instruction, operands=instruction.operands[:-1])
    for operand in instruction.operands:
        if wrong := _wrong_base(instruction, operand) or _unknown_form(instruction, operand):
            return wrong
    expected = forms(instruction)
    if not expected:
        return ""
    if len(instruction.operands) != len(expected):
        return "this number of operands"
    for operand, form in zip(instruction.operands, expected, strict=True):
        if form.startswith("@"):
            wrong = _wrong_place(instruction, operand, form[1:], space)
        else:
            wrong = _wrong(instruction, operand, form)
        if wrong:
            return wrong
    return _wrong_pair(instruction) or _wrong_name(instruction, space) or out_of_range(instruction)


def _wrong_pair(instruction: Instruction) -> str:
    """What is wrong with two results, which shfl, match.all and setp may have; setp not of single
    halves."""
    pair = any(isinstance(operand, Pair) for operand in instruction.operands)
    if pair and instruction.family == "setp" and {"f16", "bf16"} & set(instruction.modifiers):
        return "two results"
    return "two results" if pair and "any" in instruction.modifiers else ""


def _unknown_form(instruction: Instruction, operand: Operand) -> str:
    """128 bits are for ld and st of .b128 only, which the engines do not support; two results
    for few."""
    if any(register.bits > _MAX_BITS for register in registers_of(operand)):
        return "registers of 128 bits"
    if isinstance(operand, Pair) and instruction.family not in _PAIRS:
        return "two results"
    return ""


def _wrong_base(instruction: Instruction, operand: Operand) -> str:
    """Bits of 32 or 64, an integer, or the name of a variable."""
    if not isinstance(operand, Address):
        return ""
    base = operand.base
    spaces = {m.partition("::")[0] for m in instruction.modifiers}
    short = spaces & {"shared", "local", "param"}
    least = 64 if not short else 32
    if isinstance(base, Immediate) and "local" not in instruction.modifiers:
        return "a number as an address"
    if isinstance(base, Register) and (base.type[0] not in "bus" or base.bits < least):
        return f"{base.name} of type .{base.type} as an address"
    return ""


def _wrong_place(instruction: Instruction, operand: Operand, named: str, space: Space) -> str:
    """What is wrong with a variable's name as an address: whether it lies where the instruction
    looks."""
    if not isinstance(operand, Address):
        return "no address where one is expected"
    base = operand.base
    storing = instruction.family == "st" and "param" in instruction.modifiers
    if not isinstance(base, Symbol):
        return "a parameter by its address" if storing else ""
    lies = space(base.name)
    if lies in ("param", "slot") and operand.offset < 0:
        return f"an address before {base.name}"
    if storing and lies == "param":
        return f"a store to the parameter {base.name}"
    if not lies:
        return ""
    spaces = {m.partition("::")[0] for m in instruction.modifiers}
    looks = named if named in _SPACES else next((s for s in _SPACES if s in spaces), "")
    if lies in _INSIDE.get(looks, {looks}) or (not looks and lies in _GENERIC):
        return ""
    return f"{base.name} lies in .{lies}, which this does not access:"


def _wrong_name(instruction: Instruction, space: Space) -> str:
    """What is wrong with a variable's name as a value."""
    value = instruction.operands[-1]
    if not isinstance(value, Symbol):
        return ""
    lies, modifiers = space(value.name), instruction.modifiers
    if instruction.family == "cvta" and lies not in ("", modifiers[0]):
        return f"{value.name} lies in .{lies}: it"
    short = instruction.family == "mov" and not modifiers[-1].endswith("64")
    if short and lies == "global":
        return f"the address of {value.name} in 32 bits"
    return ""


def _wrong(instruction: Instruction, operand: Operand, form: str) -> str:
    type_name = form.lstrip("~={")
    family = instruction.family
    if form == "#":
        whole = isinstance(operand, Immediate) and operand.kind == "int"
        return "" if whole else "an integer is expected here, not this operand"
    if form.startswith("{"):
        return _wrong_vector(family, operand, form[1:])
    if isinstance(operand, Vector) and family == "mov":
        return _wrong_parts(operand.items, type_name)
    single = operand.first if isinstance(operand, Pair) else operand
    if isinstance(single, Vector) and family in ("ld", "st") and len(single.items) == 1:
        single = single.items[0]
    if isinstance(single, Sink) and not _discards(instruction):
        return "a result that is dropped"
    return "" if _fits(family, single, form) else f"an operand that does not fit .{type_name}"


def _discards(instruction: Instruction) -> bool:
    if instruction.family == "mbarrier":
        return instruction.modifiers[0] in ("arrive", "arrive_drop")
    return instruction.family in _DISCARDS


def _wrong_vector(family: str, operand: Operand, form: str) -> str:
    """Elements of one size and kind; those of memory may be wider than the type."""
    if not isinstance(operand, Vector):
        return "no vector where one is expected"
    items, type_name = operand.items, form.lstrip("=")
    of_memory = family in ("ld", "st")
    if wrong := _wrong_sizes(items, type_bits(type_name), wider=of_memory):
        return wrong
    kind = _inferred(items, type_name)
    if not kind:
        return "a vector of unlike types"
    if kind == "bits" and form == type_name:
        return ""
    numbers = [item for item in items if isinstance(item, Immediate)]
    if numbers and not of_memory and family != "atom":
        return "a constant in a fragment"
    loads_whole = family == "ld" and kind == "whole"
    for item in items:
        if not (loads_whole or isinstance(item, Sink) or _fits(family, item, f"~{form}")):
            return f"an element that does not fit .{type_name}"
    return ""


def _wrong_sizes(items: Sequence[Operand], bits: int, *, wider: bool) -> str:
    if any(not isinstance(item, Register | Immediate | Sink) for item in items):
        return "an element that is no register"
    sizes = {item.bits for item in items if isinstance(item, Register)}
    if items and all(isinstance(item, Sink) for item in items):
        return "an empty vector"
    if len(sizes) > 1:
        return "a vector of registers of unlike sizes"
    size = next(iter(sizes), bits)
    fits = size >= max(bits, 2) if wider else size == bits
    return "" if fits else f"elements of {size} bits, not {bits},"


def _inferred(items: Sequence[Operand], type_name: str) -> str:
    """Kind of a vector's elements: bits go with all; empty if neighbours differ.

    ptxas compares each with the one before, and takes over its kind: bits between a float and a
    integer make them fit.
    """
    kinds: list[str] = []
    for item in items:
        if isinstance(item, Register):
            kinds.append(_kind(item.type))
        elif isinstance(item, Immediate):
            kinds.append("whole" if item.kind == "int" else "float")
            if kinds[-1] == "whole" and _kind(type_name) == "float":
                return ""
    if any(len({a, b, "bits"}) > 2 for a, b in pairwise(kinds)):
        return ""
    return "bits" if "bits" in kinds else next(iter(kinds), "none")


def _wrong_parts(items: Sequence[Operand], type_name: str) -> str:
    """mov of parts: of one size, that make up the whole."""
    sizes = {item.bits for item in items if isinstance(item, Register)}
    if any(isinstance(item, Special) for item in items) or type_name[:1] != "b" or "f" in type_name:
        return "parts of this"
    if len(sizes) != 1 or sizes.pop() * len(items) != type_bits(type_name):
        return f"parts that do not make up .{type_name}"
    return "" if _inferred(items, type_name) else "parts of unlike types"


def _fits(family: str, operand: Operand, form: str) -> bool:
    type_name = form.lstrip("~=")
    match operand:
        case Register(type=declared):
            if "=" in form:
                return declared == type_name
            return _register_fits(declared, type_name, form.startswith("~"))
        case Negated():
            return type_name == "pred"
        case Immediate(kind=kind):
            return "=" not in form and _number_fits(kind, type_name)
        case Special(name=name):
            return family == "mov" and _special_fits(name, type_name)
        case Sink():
            return True
        case Symbol():
            return (
                family in _NAMES_VARIABLES and type_name != "pred" and _kind(type_name) != "float"
            )
        case _:
            return False


def _special_fits(name: str, type_name: str) -> bool:
    """%tid.x of 32 bits or 16, %clock of 32, %clock64 of 64."""
    bits = type_bits(type_name)
    if type_name == "pred" or _kind(type_name) == "float":
        return False
    if name in _LONG_SPECIALS:
        return bits == 64
    return bits == 32 or (bits == 16 and name.partition(".")[0] in _PLACES)


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
    """Floats go for floats and bits, integers for all but floats."""
    if kind == "int":
        return type_name == "pred" or _kind(type_name) != "float"
    return type_name in ("f32", "f64", "b32", "b64")
