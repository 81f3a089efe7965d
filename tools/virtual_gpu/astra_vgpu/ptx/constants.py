"""Constant expressions of PTX: `4*2`, `--1`, `1 << 3`, computed with 64 bits (PTX ISA 4.5)."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from astra_vgpu.ptx.syntax import Immediate

if TYPE_CHECKING:
    from astra_vgpu.ptx.cursor import Cursor
    from astra_vgpu.ptx.lexer import Token

_LEVELS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a or b))},
    {"&&": lambda a, b: int(bool(a and b))},
    {"|": operator.or_},
    {"^": operator.xor},
    {"&": operator.and_},
    {"==": operator.eq, "!=": operator.ne},
    {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt},
    {"<<": lambda a, b: a << (b & 63), ">>": lambda a, b: a >> (b & 63)},
    {"+": operator.add, "-": operator.sub},
    {
        "*": operator.mul,
        "/": lambda a, b: _quotient(a, b),
        "%": lambda a, b: a - b * _quotient(a, b),
    },
)
"""From the loosest binding to the tightest."""


def constant(cursor: Cursor) -> Immediate:
    """A float with or without a sign, or an expression of integers.

    Raises PtxSyntaxError for what is neither, numbers of more than 64 bits, and quotients by 0.
    """
    ahead = 1 if cursor.at("-") else 0
    if _is_float(cursor.ahead(ahead)):
        return literal(cursor)
    return Immediate(_ternary(cursor))


def whole(cursor: Cursor) -> int:
    """An expression of integers."""
    start = cursor.peek
    value = constant(cursor)
    if value.kind != "int":
        raise cursor.error("expected an integer", start)
    return value.value


def starts(token: Token) -> bool:
    """Can a constant begin so?"""
    return token.kind == "number" or (
        token.text in ("-", "+", "~", "!", "(") and token.kind == "punct"
    )


def literal(cursor: Cursor) -> Immediate:
    """One number, with a minus sign if there is one. A decimal float has 64 bits and the kind
    `decimal`: its type is the instruction's."""
    negative = cursor.accept("-")
    token = cursor.peek
    if not _is_float(token):
        value = cursor.natural()
        return Immediate(-value if negative else value)
    text = cursor.next().text
    if text[:2] in ("0f", "0F"):
        return Immediate(int(text[2:], 16) ^ (negative << 31), "f32")
    if text[:2] in ("0d", "0D"):
        return Immediate(int(text[2:], 16) ^ (negative << 63), "f64")
    (bits,) = struct.unpack("<Q", struct.pack("<d", float(text)))
    return Immediate(bits ^ (negative << 63), "decimal")


def decimal(immediate: Immediate, type_name: str) -> Immediate:
    """A decimal float as one of f64 or, for any other type, f32; other constants as they are."""
    if immediate.kind != "decimal":
        return immediate
    if type_name == "f64":
        return Immediate(immediate.value, "f64")
    (number,) = struct.unpack("<d", struct.pack("<Q", immediate.value))
    try:
        (bits,) = struct.unpack("<I", struct.pack("<f", number))
    except OverflowError:
        bits = 0xFF800000 if number < 0 else 0x7F800000
    return Immediate(bits, "f32")


def _is_float(token: Token) -> bool:
    text = token.text
    if token.kind != "number" or text[:2] in ("0x", "0X", "0b", "0B"):
        return False
    return text[:2] in ("0f", "0F", "0d", "0D") or any(c in text for c in ".eE")


def _ternary(cursor: Cursor) -> int:
    condition = _binary(cursor, 0)
    if not cursor.accept("?"):
        return condition
    first = _ternary(cursor)
    cursor.expect(":")
    second = _ternary(cursor)
    return first if condition else second


def _binary(cursor: Cursor, level: int) -> int:
    if level == len(_LEVELS):
        return _unary(cursor)
    value = _binary(cursor, level + 1)
    while (token := cursor.peek).kind == "punct" and token.text in _LEVELS[level]:
        cursor.next()
        other = _binary(cursor, level + 1)
        try:
            value = _wrapped(int(_LEVELS[level][token.text](value, other)))
        except ZeroDivisionError:
            raise cursor.error("division by 0", token) from None
    return value


def _unary(cursor: Cursor) -> int:
    if cursor.accept("-"):
        return -_unary(cursor)
    if cursor.accept("+"):
        return _unary(cursor)
    if cursor.accept("~"):
        return ~_unary(cursor)
    if cursor.accept("!"):
        return int(not _unary(cursor))
    if cursor.accept("("):
        value = _ternary(cursor)
        cursor.expect(")")
        return value
    if cursor.peek.text == "WARP_SZ":
        cursor.next()
        return 32
    start = cursor.peek
    immediate = literal(cursor)
    if immediate.kind != "int":
        raise cursor.error("a float is not allowed in an expression", start)
    return immediate.value


def _wrapped(value: int) -> int:
    """To 64 bits, signed; a larger literal stays as it is until something is computed with it."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _quotient(a: int, b: int) -> int:
    """Towards zero, as C has it."""
    sign = -1 if (a < 0) != (b < 0) else 1
    return sign * (abs(a) // abs(b))
