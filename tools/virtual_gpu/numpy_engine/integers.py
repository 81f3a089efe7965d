"""Integer arithmetic: add to mad, division, extremes, carry chains, dot products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from astra_chat.tools.virtual_gpu.numpy_engine.code import Code, Step, elementwise, family
from astra_chat.tools.virtual_gpu.numpy_engine.frame import Frame
from astra_chat.tools.virtual_gpu.numpy_engine.kinds import Array, dtype_of
from astra_chat.tools.virtual_gpu.syntax import type_bits

Function = Callable[..., Array]
_WORDS = ("u16", "u32", "u64", "s16", "s32", "s64", "b16", "b32", "b64")


def _raw(type_name: str) -> str:
    """The unsigned type of the same width: where signs do not matter, overflow must not either."""
    return f"u{type_bits(type_name)}"


@family("add", "int")
@family("sub", "int")
def add_sub(code: Code) -> Step:
    compute = np.add if code.instruction.family == "add" else np.subtract
    if code.flag("cc"):
        return _carry(code, compute, carry_in=False, carry_out=True)
    type_name = code.type(*_WORDS)
    if code.flag("sat"):
        if type_name != "s32":
            raise code.refuse("saturation of this type")
        return elementwise(code, lambda a, b: _saturated(compute, a, b), "s32")
    return elementwise(code, compute, _raw(type_name))


def _saturated(compute: Function, a: Array, b: Array) -> Array:
    wide = compute(a.astype(np.int64), b.astype(np.int64))
    limits = np.iinfo(np.int32)
    return np.clip(wide, limits.min, limits.max).astype(np.int32)


@family("addc", "int")
@family("subc", "int")
def add_sub_carry(code: Code) -> Step:
    compute = np.add if code.instruction.family == "addc" else np.subtract
    return _carry(code, compute, carry_in=True, carry_out=code.flag("cc"))


def _carry(code: Code, compute: Function, *, carry_in: bool, carry_out: bool) -> Step:
    """Carry, or borrow, is the wrap-round of either of the two steps."""
    type_name = _raw(code.type("u32", "s32", "u64", "s64", "b32", "b64"))
    code.count(3)
    write = code.write(0, type_name)
    left, right = code.read(1, type_name), code.read(2, type_name)
    adds = compute is np.add

    def wrapped(total: Array, a: Array, b: Array) -> Array:
        return total < a if adds else a < b

    def step(f: Frame) -> None:
        a, b = left(f), right(f)
        total = compute(a, b)
        carry = wrapped(total, a, b)
        if carry_in:
            bit = f.carry.astype(total.dtype)
            final = compute(total, bit)
            carry = carry | wrapped(final, total, bit)
            total = final
        if carry_out:
            f.carry = carry.astype(np.uint64)
        write(f, total)

    return step


def _wide_type(type_name: str) -> str:
    return f"{type_name[0]}{2 * type_bits(type_name)}"


def high_product(a: Array, b: Array) -> Array:
    """The upper half of the double-width product; signed or not as the dtype says."""
    bits = a.dtype.itemsize * 8
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{a.dtype.itemsize * 2}")
        high = (a.astype(wide) * b.astype(wide)) >> wide.type(bits)
        return np.asarray(high.astype(a.dtype))
    raw_a, raw_b = a.view(np.uint64), b.view(np.uint64)
    high = _high64(raw_a, raw_b)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, raw_b, np.uint64(0)) - np.where(b < 0, raw_a, np.uint64(0))
    return np.asarray(high.view(a.dtype))


def _high64(a: Array, b: Array) -> Array:
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_high, a_low, b_high, b_low = a >> half, a & low, b >> half, b & low
    middle = a_high * b_low + ((a_low * b_low) >> half)
    other = a_low * b_high + (middle & low)
    return np.asarray(a_high * b_high + (middle >> half) + (other >> half))


def wide_product(type_name: str) -> Function:
    wide = dtype_of(_wide_type(type_name))
    return lambda a, b: a.astype(wide) * b.astype(wide)


@family("mul", "int")
def mul(code: Code) -> Step:
    part = code.option("lo", "hi", "wide")
    type_name = code.type(*_WORDS)
    if part == "lo":
        return elementwise(code, np.multiply, _raw(type_name))
    if part == "hi":
        return elementwise(code, high_product, type_name)
    return elementwise(code, wide_product(type_name), type_name, _wide_type(type_name))


@family("mad", "int")
def mad(code: Code) -> Step:
    part = code.option("lo", "hi", "wide")
    if code.flag("cc"):
        raise code.refuse("a carry out of mad")
    type_name = code.type(*_WORDS)
    if part == "lo":
        return elementwise(code, lambda a, b, c: a * b + c, _raw(type_name))
    if part == "hi":
        return elementwise(code, lambda a, b, c: high_product(a, b) + c, type_name)
    product, result = wide_product(type_name), _wide_type(type_name)
    write = code.write(0, result)
    a, b, c = code.read(1, type_name), code.read(2, type_name), code.read(3, result)
    return lambda f: write(f, product(a(f), b(f)) + c(f))


@family("mul24")
@family("mad24")
def mul24(code: Code) -> Step:
    code.option("lo")
    type_name = code.type("u32", "s32")
    shift = dtype_of(type_name).type(8)

    def cut(a: Array) -> Array:
        return np.asarray((a << shift) >> shift)

    if code.instruction.family == "mul24":
        return elementwise(code, lambda a, b: cut(a) * cut(b), type_name)
    return elementwise(code, lambda a, b, c: cut(a) * cut(b) + c, type_name)


@family("sad")
def sad(code: Code) -> Step:
    type_name = code.type(*_WORDS)

    def compute(a: Array, b: Array, c: Array) -> Array:
        return np.where(a > b, a - b, b - a) + c

    return elementwise(code, compute, type_name)


def quotient(a: Array, b: Array) -> Array:
    """Rounded toward zero; all ones where b is 0, as the hardware's routine leaves it."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    exact = a // safe if a.dtype.kind == "u" else (a - np.fmod(a, safe)) // safe
    return np.where(zero, ~b.dtype.type(0), exact)


def remainder(a: Array, b: Array) -> Array:
    """Of the sign of a; a itself where b is 0."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    return np.where(zero, a, np.fmod(a, safe))


@family("div", "int")
def div(code: Code) -> Step:
    return elementwise(code, quotient, code.type(*_WORDS))


@family("rem", "int")
def rem(code: Code) -> Step:
    return elementwise(code, remainder, code.type(*_WORDS))


@family("abs", "int")
def absolute(code: Code) -> Step:
    return elementwise(code, np.abs, code.type("s16", "s32", "s64"))


@family("neg", "int")
def neg(code: Code) -> Step:
    return elementwise(code, np.negative, code.type("s16", "s32", "s64"))


@family("min", "int")
def minimum(code: Code) -> Step:
    return _extreme(code, np.minimum)


@family("max", "int")
def maximum(code: Code) -> Step:
    return _extreme(code, np.maximum)


def _extreme(code: Code, compute: Function) -> Step:
    if code.flag("relu"):
        plain = compute
        compute = lambda a, b: np.maximum(plain(a, b), 0)  # noqa: E731
        return elementwise(code, compute, code.type("s32"))
    return elementwise(code, compute, code.type(*_WORDS[:6]))


@family("dp4a")
def dp4a(code: Code) -> Step:
    """d = c + sum of the products of four bytes."""
    kinds = [code.type("u32", "s32"), code.type("u32", "s32")]
    result = "s32" if "s32" in kinds else "u32"
    write = code.write(0, result)
    a, b, c = code.read(1, "b32"), code.read(2, "b32"), code.read(3, result)

    def step(f: Frame) -> None:
        x, y, total = a(f), b(f), c(f).astype(np.int64)
        for byte in range(4):
            total = total + _byte(x, byte, kinds[0]) * _byte(y, byte, kinds[1])
        write(f, total.astype(np.uint32))

    return step


def _byte(word: Array, place: int, kind: str) -> Array:
    byte = ((word >> np.uint32(8 * place)) & np.uint32(0xFF)).astype(np.uint8)
    return byte.view(np.int8 if kind == "s32" else np.uint8).astype(np.int64)
