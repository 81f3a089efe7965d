"""One step back from the result of a PTX instruction to what it was computed from."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

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
