"""Numbers that PTX compares with or selects by, led back to what they were computed from.

A number stands for a way out of the usual path: `if (n == 4711)`. Where what is compared was
computed from something else by a few steps (n / 128, n - 5, n & 1023, x * 2), the number is led
back through them, so that it is one of the extent, the index or the value itself. The text is read
statement by statement; what is not understood gives no number and no error.
"""

from __future__ import annotations

import math
import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

Source = Literal["parameter", "memory", "block", "thread", "other"]
"""Where a compared register comes from: a parameter of the kernel, memory, the number of a block or
of a thread, or anything else."""
Register = str
DEPTH, MOST_DEFINITIONS = 10, 3
"""Steps back, and definitions of one register that are followed: those nearest before."""
MOST_TARGETS = 16
"""Most registers to which a number of one comparison is led back."""
TABLE = 64
"""Entries of an initialised table that is read as numbers."""
_FUNCTION = re.compile(r"\.(?:entry|func)\b")
_STATEMENT = re.compile(r"(?:@!?[%\w$]+\s+)?([a-z][\w]*(?:(?:::|\.)[\w:]+)*)\s+(.+)", re.S)
_LABEL = re.compile(r"^\s*[\w$]+:\s*")
_OPERANDS = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,\s][^,]*")
_TABLE = re.compile(
    r"\.(?:const|global)\b[^;=]*\.([busf]\d+)\s+[\w$]+\[\d*\]\s*=\s*\{([^}]*)\}", re.S
)
_SOURCES: tuple[tuple[str, Source], ...] = (
    ("%ctaid", "block"),
    ("%nctaid", "block"),
    ("%tid", "thread"),
    ("%ntid", "thread"),
    ("%laneid", "thread"),
    ("%warpid", "thread"),
)
_COARSE = ("shr.", "div.", "and.")
"""Opcodes that make one number of many, so a single number of their result is a bound of what they
take: `x >> 19` is 0 up to 524287."""
_COMPARING = ("setp", "set", "min", "max", "slct", "selp")


@dataclass(frozen=True)
class PtxNumber:
    """A number of a comparison, led back."""

    target: Target
    sources: frozenset[Source]
    ordered: bool
    """It is a bound (<, min), not a single value (==)."""


@dataclass(frozen=True)
class _Definition:
    opcode: str
    results: tuple[str, ...]
    operands: tuple[str, ...]


def ptx_numbers(ptx: str) -> Iterator[PtxNumber]:
    """The numbers of all functions, in their order; the same one may come several times."""
    definitions: dict[Register, list[_Definition]] = defaultdict(list)
    for statement in _statements(ptx):
        if _FUNCTION.search(statement):
            definitions.clear()
        found = _STATEMENT.fullmatch(statement)
        if not found or statement.startswith("."):
            continue
        opcode, operands = found[1], tuple(o.strip() for o in _OPERANDS.findall(found[2]))
        if not operands:
            continue
        try:
            yield from list(_numbers(opcode, operands, definitions))
        except (ArithmeticError, ValueError):  # arithmetic beyond what floats and texts hold
            pass
        results = _names(operands[0])
        for name in results:
            known = definitions[name]
            known.append(_Definition(opcode, results, operands[1:]))
            del known[:-MOST_DEFINITIONS]
    yield from _table_numbers(ptx)


def _statements(ptx: str) -> Iterator[str]:
    """Yields the statements without labels, comments and the lines that say where in the source
    something stands."""
    for line in re.sub(r"/\*.*?\*/", " ", ptx, flags=re.S).splitlines():
        line = line.partition("//")[0].strip()
        if not line or line.startswith((".loc", ".file", ".section", ".b8", ".pragma")):
            continue
        for part in re.split(r"[;]|^\{|\}$", line):
            text = _LABEL.sub("", part.strip()).strip()
            if text:
                yield text


def _names(operand: str) -> tuple[str, ...]:
    """Registers of a result: one, several in braces, or d|p."""
    return tuple(part.strip() for part in re.split(r"[{},|]", operand) if part.strip())


def _numbers(
    opcode: str, operands: tuple[str, ...], definitions: dict[Register, list[_Definition]]
) -> Iterator[PtxNumber]:
    """Yields the numbers of one instruction: of a comparison, of a table of branches, and of what
    takes a number away, which is zero where both are equal."""
    family, *modifiers = opcode.split(".")
    kind = modifiers[-1] if modifiers else ""
    if family in _COMPARING:
        ordered = not (family in ("setp", "set") and modifiers[0] in ("eq", "ne", "equ", "neu"))
        values = operands[1:3]
        for compared, other in (values, values[::-1]) if len(values) == 2 else ():
            for number, own in _constants(other, kind, definitions):
                yield from _led_back(compared, number, own, ordered, definitions)
                if ordered and kind.startswith("u"):
                    yield from _led_back(compared, 0, kind, ordered, definitions)
    elif family == "brx":
        for number in range(TABLE if len(operands) > 1 else 0):
            yield from _led_back(operands[0], number, "u32", False, definitions)
    elif family in ("add", "sub", "xor") and kind[:1] in "subc" and len(operands) > 2:
        taken = integer_of(operands[2], kind)
        if taken is not None and (family != "add" or taken < 0):
            away = -taken if family == "add" else taken
            yield from _led_back(operands[1], away, kind, True, definitions)


def _constants(
    operand: str, kind: str, definitions: dict[Register, list[_Definition]], depth: int = 3
) -> Iterator[tuple[float, str]]:
    """Numbers that the operand is, each with its kind: an immediate, or a register that was set to
    one. A float register may be set to the bits of a number; then the kind is that of bits."""
    floating = kind.startswith(("f", "bf"))
    immediate = float_of(operand) if floating else integer_of(operand, kind)
    if immediate is not None:
        yield immediate, kind
        return
    bits = integer_of(operand, kind) if floating else None
    if bits is not None:
        yield bits, f"b{32 if 'x' in kind else re.sub('[^0-9]', '', kind)}"
        return
    for definition in definitions.get(operand, ()) if depth else ():
        family, *modifiers = definition.opcode.split(".")
        if family in ("mov", "cvt") and len(definition.operands) == 1:
            (value,) = definition.operands
            inner = modifiers[-1] if family == "cvt" and modifiers else kind
            yield from _constants(value, inner, definitions, depth - 1)


def _led_back(
    register: str,
    number: float,
    kind: str,
    ordered: bool,
    definitions: dict[Register, list[_Definition]],
) -> Iterator[PtxNumber]:
    """The number as one of the register, and of what it was computed from."""
    if integer_of(register, kind) is not None or float_of(register) is not None:
        return
    bits = int(re.sub(r"\D", "", kind.partition("x")[0]) or 32)
    floating = kind.startswith(("f", "bf"))
    first = Target(float(number), floating=floating, bits=bits)
    waiting: list[tuple[str, Target, int, bool]] = [(register, first, DEPTH, ordered)]
    found: list[tuple[str, Target, bool]] = []
    while waiting and len(found) < MOST_TARGETS:
        name, target, left, bound = waiting.pop(0)
        found.append((name, target, bound))
        for definition in definitions.get(name, ()) if left else ():
            place = definition.results.index(name) if name in definition.results else 0
            many = len(definition.results)
            for source, before in backwards(
                definition.opcode,
                definition.operands,
                target,
                place if many > 1 else None,
                lambda text: [(d.opcode, d.operands) for d in definitions.get(text, ())],
            ):
                coarse = definition.opcode.startswith(_COARSE)
                waiting.append((source, before, left - 1, bound or coarse))
    for name, target, bound in dict.fromkeys(found):
        if math.isfinite(target.value):
            yield PtxNumber(target, _sources(name, definitions), bound)


def _sources(register: str, definitions: dict[Register, list[_Definition]]) -> frozenset[Source]:
    """Returns what a register was computed from."""
    found, seen, waiting = set[Source](), set[str](), [register]
    while waiting and len(seen) < 4 * MOST_TARGETS:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for definition in definitions.get(name, ()):
            if definition.opcode.startswith("ld.param"):
                found.add("parameter")
            elif definition.opcode.startswith(("ld", "shfl", "atom")):
                found.add("memory")
            else:
                waiting += [part for operand in definition.operands for part in _names(operand)]
        found |= {source for start, source in _SOURCES if name.startswith(start)}
    return frozenset(found or {"other"})


def _table_numbers(ptx: str) -> Iterator[PtxNumber]:
    """Entries of small initialised tables: what a kernel looks up, it may compare with."""
    for kind, text in _TABLE.findall(ptx):
        entries = [entry.strip() for entry in text.split(",") if entry.strip()]
        floating, bits = kind.startswith("f"), int(kind[1:])
        if bits == 8:
            entries, bits = _words(entries), 32
        if len(entries) > TABLE:
            continue
        for entry in entries:
            number = float_of(entry) if floating else integer_of(entry, f"b{bits}")
            if number is not None:
                target = Target(float(number), floating=floating, bits=bits)
                yield PtxNumber(target, frozenset({"other"}), False)


def _words(entries: list[str]) -> list[str]:
    """Bytes as words of 32 bits, of which nvcc writes tables of structs and of unions."""
    if not all(entry.isdecimal() for entry in entries):
        return []
    content = bytes(int(entry) & 255 for entry in entries)
    whole = len(content) // 4 * 4
    return [str(int.from_bytes(content[i : i + 4], "little")) for i in range(0, whole, 4)]


# One step back from the result of a PTX instruction to what it was computed from.

Known = Callable[[str], list[tuple[str, tuple[str, ...]]]]
"""The opcodes and operands by which a register was set."""
Step = Iterator[tuple[str, "Target"]]
_FLOAT = re.compile(r"-?0([fFdD])([0-9a-fA-F]{8}(?:[0-9a-fA-F]{8})?)")
_INTEGER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|\d+)U?")
MOST_MODULUS, MOST_BITS = 2**20, 63


@dataclass(frozen=True)
class Target:
    """A number that a register would have to hold."""

    value: float
    floating: bool
    bits: int
    """Width of the register."""
    modulus: int = 0
    """Not 0: every number that leaves the rest `value`."""


def float_of(text: str) -> float | None:
    """The number of a float immediate; None of anything else."""
    found = _FLOAT.fullmatch(text.strip())
    if not found:
        return None
    raw = bytes.fromhex(found[2])
    if len(raw) != (8 if found[1] in "dD" else 4):
        return None
    value = float(struct.unpack(">d" if len(raw) == 8 else ">f", raw)[0])
    return -value if text.strip().startswith("-") else value


def integer_of(text: str, kind: str) -> int | None:
    """The number of an integer immediate, or the bits of a float immediate; None of anything else.
    Of unsigned kinds it is not negative."""
    text = text.strip()
    if bits := _FLOAT.fullmatch(text):
        return int(bits[2], 16)
    found = _INTEGER.fullmatch(text)
    if not found:
        return None
    value = int(found[2], 0) if found[2][:2] in ("0x", "0X") else int(found[2])
    value = -value if found[1] else value
    width = int(re.sub(r"\D", "", kind) or 64)
    return value % 2**width if value < 0 and kind.startswith("u") else value


def backwards(
    opcode: str, operands: tuple[str, ...], target: Target, place: int | None, known: Known
) -> Step:
    """Operands, and what each would have to hold so that the result is the target's number; of
    bounds the numbers on both sides. `place`: which of several results it is."""
    family, *modifiers = opcode.split(".")
    kind = modifiers[-1] if modifiers else ""
    if not math.isfinite(target.value):
        return
    if place is not None:
        if family == "mov" and len(operands) == 1:  # one half of a wider register
            yield operands[0], replace(target, bits=2 * target.bits)
        return
    if family in ("mov", "cvt", "abs", "neg", "sqrt", "rcp", "rsqrt", "ex2", "lg2"):
        yield from _of_one(family, kind, operands, target)
    elif target.floating:
        yield from _of_floats(family, operands, target)
    else:
        yield from _of_integers(family, kind, operands, target, known)


def _of_one(family: str, kind: str, operands: tuple[str, ...], target: Target) -> Step:
    if len(operands) != 1:
        return
    value = target.value
    if family in ("mov", "cvt"):
        floating = kind.startswith(("f", "bf")) if family == "cvt" else target.floating
        bits = int(re.sub(r"\D", "", kind.partition("x")[0]) or target.bits)
        yield operands[0], replace(target, floating=floating, bits=bits)
    elif family == "abs":
        yield operands[0], target
        yield operands[0], replace(target, value=-value)
    else:
        try:
            inverse = _INVERSE[family](value)
        except (ArithmeticError, ValueError):
            return
        yield operands[0], replace(target, value=inverse)


_INVERSE: dict[str, Callable[[float], float]] = {
    "neg": lambda v: -v,
    "sqrt": lambda v: v * v,
    "rcp": lambda v: 1 / v,
    "rsqrt": lambda v: 1 / (v * v),
    "ex2": math.log2,
    "lg2": lambda v: 2.0**v,
}


def _of_floats(family: str, operands: tuple[str, ...], target: Target) -> Step:
    """Steps back over float arithmetic with an immediate: sums, products, quotients, minima and
    maxima."""
    if family == "fma" and len(operands) == 3:
        factor, addend = float_of(operands[1]), float_of(operands[2])
        if factor and addend is not None:
            yield operands[0], replace(target, value=(target.value - addend) / factor)
        return
    for place in (0, 1) if len(operands) == 2 else ():
        number = float_of(operands[1 - place])
        value = None if number is None else _float_before(family, place, number, target.value)
        if value is not None:
            yield operands[place], replace(target, value=value)


def _float_before(family: str, place: int, number: float, value: float) -> float | None:
    """The operand in this place, where the other is the number."""
    if family == "add":
        return value - number
    if family == "sub":
        return value + number if place == 0 else number - value
    if family == "mul" and number:
        return value / number
    if family == "div" and place == 0:
        return value * number
    return value if family in ("min", "max") else None


def _of_integers(
    family: str, kind: str, operands: tuple[str, ...], target: Target, known: Known
) -> Step:
    if len(operands) == 3:
        yield from _of_three(family, kind, operands, target)
        return
    if len(operands) != 2:
        return
    if family == "sub" and (modulus := _divided_by(operands[1], known)):
        yield operands[0], replace(target, modulus=modulus)
    elif family == "add" and (corrected := _but_for_sign(operands, known)):
        yield corrected, target
    elif family == "shr" and (division := _division(operands, known)):
        dividend, divisor = division
        for quotient in (int(target.value), int(target.value) + 1):
            yield dividend, replace(target, value=float(quotient * divisor))
    else:
        for place, other in ((0, operands[1]), (1, operands[0])):
            number = integer_of(other, kind)
            if number is not None:
                for before in _before(family, kind, place, number, target):
                    yield operands[place], before


def _of_three(family: str, kind: str, operands: tuple[str, ...], target: Target) -> Step:
    """Steps back over `mad`, a product and a sum, and over `bfe`, some bits of a word."""
    if family == "mad":
        yield from _of_mad(kind, operands, target)
    elif family == "bfe":
        start, count = (integer_of(operand, "u32") for operand in operands[1:])
        if start is not None and count is not None and start + count < MOST_BITS:
            below = float(int(target.value) << start)
            yield operands[0], replace(target, value=below, modulus=1 << (start + count))


def _of_mad(kind: str, operands: tuple[str, ...], target: Target) -> Step:
    factor, addend = integer_of(operands[1], kind), integer_of(operands[2], kind)
    if factor and addend is not None:
        rest = int(target.value) - addend
        for value in {rest // factor, -(-rest // factor)}:
            yield operands[0], replace(target, value=float(value))
    elif factor is not None and 1 < -factor <= MOST_MODULUS:
        yield operands[2], replace(target, modulus=-factor)


def _but_for_sign(operands: tuple[str, ...], known: Known) -> str:
    """The register to which a sum adds what a division of negative numbers needs; "" of another
    sum."""
    for place, other in ((0, operands[1]), (1, operands[0])):
        if any(opcode.startswith("shr.") for opcode, _ in known(other)):
            return operands[place]
    return ""


def _division(operands: tuple[str, ...], known: Known) -> tuple[str, int] | None:
    """The dividend and the divisor where the upper half of a product is shifted: compilers write
    x / d as x times 2^k / d, without its last k bits."""
    shift = integer_of(operands[1], "u32")
    for opcode, factors in known(operands[0]) if shift is not None else ():
        family, *modifiers = opcode.split(".")
        if family != "mul" or len(factors) != 2 or modifiers[0] not in ("hi", "wide"):
            continue
        kind = modifiers[-1]
        factor, bits = integer_of(factors[1], kind), int(re.sub(r"\D", "", kind) or 32)
        if factor is not None and factor < 0:
            factor %= 1 << bits
        above = bits if modifiers[0] == "hi" else 0
        divisor = round(2 ** (above + (shift or 0)) / factor) if factor else 0
        if 1 < divisor <= MOST_MODULUS:
            return factors[0], divisor
    return None


def _divided_by(product: str, known: Known) -> int:
    """m, where the register is (x / m) * m: what x leaves beside it is its rest."""
    for opcode, operands in known(product):
        family, *modifiers = opcode.split(".")
        if family in ("mul", "shl") and len(operands) == 2:
            factor = integer_of(operands[1], modifiers[-1] if modifiers else "")
            if factor is not None and factor >= 0:
                factor = factor if family == "mul" else 1 << min(factor, 62)
                if 1 < factor <= MOST_MODULUS:
                    return factor
        if family == "and" and len(operands) == 2:
            mask = integer_of(operands[1], "s64")
            if mask is not None and mask < 0 and (-mask) & (-mask - 1) == 0:
                return -mask
    return 0


def _before(family: str, kind: str, place: int, number: int, target: Target) -> Iterator[Target]:
    """Yields what the operand in this place would have to be, where the other is the number."""
    value = int(target.value) if math.isfinite(target.value) else 0

    def numbers(*values: float) -> Iterator[Target]:
        return (replace(target, value=float(one)) for one in dict.fromkeys(values))

    if family == "add":
        yield from numbers(value - number)
    elif family == "sub":
        yield from numbers(value + number if place == 0 else number - value)
    elif family in ("min", "max", "xor", "or"):
        yield from numbers(value ^ number if family == "xor" else value)
    elif family == "mul" and number:
        yield from numbers(value // number, -(-value // number))
    elif family == "shl" and place == 0 and 0 <= number < 63:
        yield from numbers(value >> number, -(-value >> number))
    elif family == "and":
        yield from _before_mask(number, value, target)
    elif place == 0:
        yield from _before_division(family, kind, number, value, target)


def _before_mask(mask: int, value: int, target: Target) -> Iterator[Target]:
    """The number with none of the bits that the mask takes away, and with all of them; of a mask of
    low bits every number with this rest."""
    everything = (1 << target.bits) - 1
    if mask & (mask + 1) == 0 and 0 < mask < MOST_MODULUS:
        yield replace(target, value=float(value), modulus=mask + 1)
    yield replace(target, value=float(value))
    others = everything & ~mask
    yield replace(target, value=float((value & everything) | others))


def _before_division(
    family: str, kind: str, number: int, value: int, target: Target
) -> Iterator[Target]:
    """The least number with this quotient and the least with the next; every one with this rest.
    Compilers write x / d as the upper half of x times a number of 2^k / d."""
    low = high = None
    if family == "shr" and 0 <= number < 63:
        low, high = value << number, (value + 1) << number
    elif family == "div" and number > 0:
        low, high = value * number, (value + 1) * number
    elif family == "rem" and 1 < number <= MOST_MODULUS:
        yield replace(target, value=float(value), modulus=number)
    if low is not None and high is not None:
        yield replace(target, value=float(low))
        yield replace(target, value=float(high))
