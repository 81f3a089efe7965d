"""Numbers that a candidate knows by heart: what its kernels and its launcher compare with.

A kernel may be right on all that is drawn at random and wrong for one number of tokens, one stride
or one value. Whatever chooses such a way has to compare with a number, which stands in its code.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.ptx_numbers import PtxNumber, ptx_numbers
from astra_chat.tools.known import KnownNumbers, Rest
from astra_vgpu.ground.elf import EXECUTABLE, Elf, ElfError

LARGEST_SIZE = 2**31
"""No extent, stride or index beyond is ever tried."""
SMALL = 64
"""Sizes up to this, and powers of two, are met by cases that are drawn for other reasons: they are
tried last."""
TRIVIAL = 2
"""Sizes up to this are in all drawn cases."""
STEPS = ((0, 2), (1, 1), (2, 0), (-1, -1))
"""What is added to a single number and to a bound, in the order in which that is tried."""
LEAST_DIVISOR = 16
"""Rests of smaller divisors are met by chance."""
MOST_SIZES, MOST_VALUES = 120, 64


def known_numbers(built: Build) -> KnownNumbers:
    """The numbers of a build: of its PTX, of its preprocessed source and of its host object."""
    device = ptx_numbers(built.ptx.read_text(errors="replace"))
    expanded = built.folder / "kernel.host.i"
    text = expanded.read_text() if expanded.is_file() else ""
    content = built.object.read_bytes() if built.object.is_file() else b""
    return gathered(device, [*source_numbers(text), *object_numbers(content)])


def gathered(device: Iterable[PtxNumber], host: Iterable[HostNumber]) -> KnownNumbers:
    """Numbers of kernels and of host code, in the order in which they are tried."""
    found = list(dict.fromkeys(device))
    on_host = list(dict.fromkeys(host))
    # What only the number of a thread is compared with, says nothing of a call.
    telling = [one for one in found if one.sources != {"thread"}]
    compared = [one for one in on_host if one.compared]
    return KnownNumbers(
        sizes=tuple(_in_order(_sizes(telling, on_host)))[:MOST_SIZES],
        rests=tuple(dict.fromkeys(_rests(telling, compared)))[:MOST_VALUES],
        values=tuple(_unique(_values(telling, on_host)))[:MOST_VALUES],
        bits=tuple(dict.fromkeys(_bits(telling)))[:MOST_VALUES],
    )


def _sizes(device: list[PtxNumber], host: list[HostNumber]) -> Iterator[tuple[int, bool]]:
    """Each with whether it is known to be a bound."""
    for one in device:
        if not one.target.modulus and not one.target.floating:
            yield int(one.target.value), one.ordered
    for also in sorted(host, key=lambda one: not one.compared):
        if not also.modulus and float(also.value).is_integer():
            yield int(also.value), also.ordered
    for one in device:  # a bound of a size that is compared as a float
        if one.target.floating and float(one.target.value).is_integer():
            yield int(one.target.value), one.ordered


def _in_order(sizes: Iterable[tuple[int, bool]]) -> Iterator[int]:
    """Unusual ones first, each with its neighbours. Beyond a bound of places, which count from
    zero, lie extents from two above it."""
    bounds = dict[int, bool]()
    for size, ordered in sizes:
        if TRIVIAL < size <= LARGEST_SIZE:
            bounds[size] = bounds.get(size, False) or ordered
    classes: tuple[list[int], ...] = ([], [], [])
    for size in bounds:
        usual = size & (size - 1) == 0
        classes[2 if size <= SMALL else 1 if usual else 0].append(size)
    found = dict[int, None]()
    for some in classes:
        for single, bound in STEPS:
            found |= dict.fromkeys(size + (bound if bounds[size] else single) for size in some)
    return iter(found)


def _rests(device: list[PtxNumber], host: list[HostNumber]) -> Iterator[Rest]:
    for one in device:
        rest = int(one.target.value)
        if LEAST_DIVISOR < one.target.modulus and 0 <= rest < one.target.modulus:
            yield rest, one.target.modulus
    for also in host:
        if LEAST_DIVISOR < also.modulus and 0 <= also.value < also.modulus:
            yield int(also.value), also.modulus


def _values(device: list[PtxNumber], host: list[HostNumber]) -> Iterator[float]:
    """Floats of kernels first, then those of host code, which choose by scalars, then integers."""
    for one in device:
        if one.target.floating and math.isfinite(one.target.value):
            yield one.target.value
    for also in host:
        if also.floating and math.isfinite(also.value):
            yield also.value
    for one in device:
        if not one.target.floating and not one.target.modulus and "parameter" not in one.sources:
            if TRIVIAL < abs(one.target.value) < LARGEST_SIZE:
                yield one.target.value


def _bits(device: list[PtxNumber]) -> Iterator[int]:
    for one in device:
        if not one.target.floating and one.sources - {"parameter", "block", "thread"}:
            value = int(one.target.value)
            if abs(value) > TRIVIAL:
                yield value % 2 ** min(max(one.target.bits, 16), 64)


def _unique(values: Iterable[float]) -> Iterator[float]:
    """Each finite number once; zero is drawn anyway."""
    return iter(dict.fromkeys(float(one) for one in values if one and math.isfinite(one)))


# Numbers that a launcher's host code may compare with: literals of the source, and constants of the
# built object, where the compiler has already computed what they come from.

_LITERAL = (
    r"(?:0[xX][0-9a-fA-F']+|0[bB][01']+|(?:\d[\d']*\.?[\d']*|\.\d[\d']*)(?:[eE][+-]?\d+)?)"
    r"[uUlLfFzZ]*"
)
_NUMBER = re.compile(rf"(?<![\w.$]){_LITERAL}(?![\w.])")
_COMPARED = re.compile(
    rf"(?:[=!<>]=|(?<![<>-])[<>](?![<>=])|\bcase\b)\s*\(?\s*-?({_LITERAL})(?![\w.])"
    rf"|(?<![\w.])({_LITERAL})\s*\)?\s*(?:[=!<>]=|(?<![<>])[<>](?![<>=]))"
)
_REST = re.compile(rf"%\s*\(?\s*({_LITERAL})\s*\)*\s*(?:[=!<>]=|[<>])\s*({_LITERAL})(?![\w.])")
_PRODUCT = re.compile(rf"(?<![\w.])({_LITERAL})\s*(\*|<<)\s*({_LITERAL})(?![\w.])")
_STRINGS = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)
LEAST_FLOAT, MOST_FLOAT = 1e-38, 1e39
"""Constants of the built object beyond are integers, whose bits are read as a float."""
MOST_SHIFT = 40
MOST_ROUNDS = 4
_WIDE_COMPARE = re.compile(
    rb"(?:\x3d|\x81[\xf8-\xff]|\x81\x7c\x24.|\x81\xbc\x24.{4}|\x81[\x78-\x7f].|\x81\x3d.{4})(.{4})",
    re.S,
)
"""x86-64: cmp with a register or memory and 32 immediate bits."""
_NARROW_COMPARE = re.compile(
    rb"(?:\x83[\xf8-\xff]|\x83\x7c\x24.|\x83\xbc\x24.{4}|\x83[\x78-\x7f].|\x83\x3d.{4})(.)", re.S
)
_AWAY = re.compile(rb"(?:\x2d|\x81[\xe8-\xeb\xed-\xef])(.{4})", re.S)
"""sub with a register but the stack's, and 32 immediate bits: how a range of cases begins."""
_MOVED = re.compile(rb"\x48[\xb8-\xbf](.{8})", re.S)
"""mov of 64 immediate bits, which no other instruction takes."""


@dataclass(frozen=True)
class HostNumber:
    """A number of host code."""

    value: float
    floating: bool
    compared: bool
    """It stands beside a comparison."""
    modulus: int = 0
    """Not 0: what is compared is the rest of a division by this."""
    ordered: bool = False
    """It is a bound (<, >=)."""


def source_numbers(text: str) -> Iterator[HostNumber]:
    """Literals of preprocessed C++, simple products among them; those of comparisons first."""
    text = _folded(_STRINGS.sub(" ", text))
    for divisor, rest in _REST.findall(text):
        modulus, value = _value(divisor), _value(rest)
        if modulus and value is not None and float(modulus).is_integer():
            yield HostNumber(value, False, True, int(modulus))
    for found in _COMPARED.finditer(text):
        ordered = bool(re.search("[<>]", found[0]))
        yield from _of_literal(found[1] or found[2], compared=True, ordered=ordered)
    for literal in _NUMBER.findall(text):
        yield from _of_literal(literal, compared=False)


def object_numbers(content: bytes) -> Iterator[HostNumber]:
    """Immediates of comparisons in the machine code of an x86-64 object file, and its constants of
    floats. Bytes are looked for, not instructions: some numbers are none, which costs a few cases.
    """
    try:
        elf = Elf(content)
    except ElfError:
        return
    for section in elf.sections:
        if section.flags & EXECUTABLE and section.name.startswith(".text"):
            yield from _of_code(section.content)
        elif re.fullmatch(r"\.rodata\.cst(4|8)", section.name):
            size = int(section.name[-1])
            for (value,) in struct.iter_unpack(
                "<f" if size == 4 else "<d", section.content[: len(section.content) // size * size]
            ):
                if LEAST_FLOAT < abs(value) < MOST_FLOAT:
                    yield HostNumber(value, True, True)


def _of_code(code: bytes) -> Iterator[HostNumber]:
    for pattern, form in (
        (_WIDE_COMPARE, "<i"),
        (_NARROW_COMPARE, "<b"),
        (_AWAY, "<i"),
        (_MOVED, "<q"),
    ):
        for found in pattern.finditer(code):
            (value,) = struct.unpack(form, found[1])
            yield HostNumber(float(value), False, True)


def _of_literal(literal: str, *, compared: bool, ordered: bool = False) -> Iterator[HostNumber]:
    value = _value(literal)
    if value is not None:
        floating = not float(value).is_integer() or bool(re.search(r"[.]|[eE][+-]?\d", literal))
        floating = floating and literal[:2].lower() != "0x"
        yield HostNumber(float(value), floating, compared, ordered=ordered)


def _folded(text: str) -> str:
    """With products and shifts of two integer literals as one literal."""

    def product(found: re.Match[str]) -> str:
        left, right = _value(found[1]), _value(found[3])
        if not isinstance(left, int) or not isinstance(right, int):
            return found[0]
        if found[2] == "<<":
            return str(left << right) if right <= MOST_SHIFT else found[0]
        return str(left * right)

    for _ in range(MOST_ROUNDS):
        folded = _PRODUCT.sub(product, text)
        if folded == text:
            break
        text = folded
    return text


def _value(literal: str) -> int | float | None:
    """The number; None where it is none."""
    digits = literal.replace("'", "")
    hexadecimal = digits[:2].lower() == "0x"
    digits = digits.rstrip("uUlLzZ" if hexadecimal else "uUlLfFzZ")
    try:
        if hexadecimal or digits[:2].lower() == "0b":
            return int(digits, 0)
        if digits.isdecimal():
            return int(digits, 8) if digits[0] == "0" and len(digits) > 1 else int(digits)
        return float(digits)
    except (ValueError, OverflowError):
        return None
