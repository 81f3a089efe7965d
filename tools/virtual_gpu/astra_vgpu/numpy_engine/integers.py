"""Integer arithmetic: add, mul, mad, div, rem, min, max, carry chains, dp4a, sad."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from astra_vgpu.numpy_engine.code import (
    Code,
    Read,
    Step,
    Write,
    elementwise,
    family,
)
from astra_vgpu.numpy_engine.dtypes import Array, dtype_of
from astra_vgpu.numpy_engine.frame import Frame
from astra_vgpu.ptx.syntax import type_bits

Function = Callable[..., Array]
_PAIRS = ("u16x2", "s16x2")
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
    if compute is np.add and code.last_type in _PAIRS:
        return elementwise(code, _on_pairs(np.add, code.type(*_PAIRS)), "b32")
    type_name = code.type(*_WORDS)
    if code.flag("sat"):
        if type_name != "s32":
            raise code.refuse("saturation of this type")
        return elementwise(code, lambda a, b: _saturated(compute, a, b), "s32")
    return elementwise(code, compute, _raw(type_name))


def _on_pairs(compute: Function, type_name: str) -> Function:
    """A function of 16-bit numbers as one of two of them in uint32."""
    half = dtype_of(type_name.removesuffix("x2"))

    def packed(*pairs: Array) -> Array:
        parts = [np.ascontiguousarray(pair).view(half).reshape(*pair.shape, 2) for pair in pairs]
        return np.ascontiguousarray(compute(*parts)).view(np.uint32)[..., 0]

    return lambda a, b: packed(a, b)


def _saturated(compute: Function, a: Array, b: Array) -> Array:
    wide = compute(a.astype(np.int64), b.astype(np.int64))
    limits = np.iinfo(np.int32)
    return np.clip(wide, limits.min, limits.max).astype(np.int32)


@family("addc", "int")
@family("subc", "int")
def add_sub_carry(code: Code) -> Step:
    compute = np.add if code.instruction.family == "addc" else np.subtract
    return _carry(code, compute, carry_in=True, carry_out=code.flag("cc"))


_CARRYING = ("u32", "s32", "u64", "s64", "b32", "b64")


def _carry(code: Code, compute: Function, *, carry_in: bool, carry_out: bool) -> Step:
    type_name = _raw(code.type(*_CARRYING))
    code.count(3)
    write = code.write(0, type_name)
    left, right = code.read(1, type_name), code.read(2, type_name)
    return _with_carry(compute, write, left, right, carry_in=carry_in, carry_out=carry_out)


def _mad_carry(code: Code, part: str, *, carry_in: bool, carry_out: bool) -> Step:
    """Half of a product, added to c with the carry."""
    type_name = code.type(*_CARRYING)
    raw = _raw(type_name)
    code.count(4)
    a, b, addend = code.read(1, type_name), code.read(2, type_name), code.read(3, raw)

    def half(f: Frame) -> Array:
        product = a(f) * b(f) if part == "lo" else high_product(a(f), b(f))
        return product.view(dtype_of(raw))

    write = code.write(0, raw)
    return _with_carry(np.add, write, half, addend, carry_in=carry_in, carry_out=carry_out)


def _with_carry(
    compute: Function, write: Write, left: Read, right: Read, *, carry_in: bool, carry_out: bool
) -> Step:
    """Carry, or borrow, is the wrap-round of either of the two steps."""
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
        return _mad_carry(code, part, carry_in=False, carry_out=True)
    type_name = code.type(*_WORDS)
    if part == "lo":
        return elementwise(code, lambda a, b, c: a * b + c, _raw(type_name))
    if part == "hi":
        return elementwise(code, lambda a, b, c: high_product(a, b) + c, type_name)
    product, result = wide_product(type_name), _wide_type(type_name)
    write = code.write(0, result)
    a, b, c = code.read(1, type_name), code.read(2, type_name), code.read(3, result)
    return lambda f: write(f, product(a(f), b(f)) + c(f))


@family("madc", "int")
def mad_with_carry(code: Code) -> Step:
    part = code.option("lo", "hi")
    return _mad_carry(code, part, carry_in=True, carry_out=code.flag("cc"))


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
    """The quotient, rounded toward zero; all ones where b is 0, as the hardware's routine leaves
    it."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    exact = a // safe if a.dtype.kind == "u" else (a - np.fmod(a, safe)) // safe
    return np.where(zero, ~b.dtype.type(0), exact)


def remainder(a: Array, b: Array) -> Array:
    """The remainder, with the sign of a; all ones where b is 0, as an H200 leaves it."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    return np.where(zero, ~b.dtype.type(0), np.fmod(a, safe))


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
    relu = code.flag("relu")
    if relu:
        plain = compute
        compute = lambda a, b: np.maximum(plain(a, b), 0)  # noqa: E731
    if code.last_type in _PAIRS:
        return elementwise(code, _on_pairs(compute, code.type(*_PAIRS[relu:])), "b32")
    if relu:
        return elementwise(code, compute, code.type("s32"))
    return elementwise(code, compute, code.type(*_WORDS[:6]))


@family("dp4a")
def dp4a(code: Code) -> Step:
    """d = c + sum of the products of four bytes."""
    return _dot(code, 8, range(4))


@family("dp2a")
def dp2a(code: Code) -> Step:
    """d = c + sum of the products of two 16-bit numbers and two bytes."""
    return _dot(code, 16, range(2) if code.option("lo", "hi") == "lo" else range(2, 4))


def _dot(code: Code, width: int, picked: range) -> Step:
    """Numbers of `width` bits of a, in their order, by the picked bytes of b."""
    signs = [code.type("u32", "s32")[0], code.type("u32", "s32")[0]]
    code.count(4)
    write = code.write(0, "u32")
    a, b, c = code.read(1, "b32"), code.read(2, "b32"), code.read(3, "u32")

    def step(f: Frame) -> None:
        x, y, total = a(f), b(f), c(f).astype(np.int64)
        for place, byte in enumerate(picked):
            total = total + _part(x, place, width, signs[0]) * _part(y, byte, 8, signs[1])
        write(f, total.astype(np.uint32))

    return step


def _part(word: Array, place: int, width: int, sign: str) -> Array:
    raw = (word >> np.uint32(width * place)).astype(f"u{width // 8}")
    return raw.view(f"i{width // 8}" if sign == "s" else raw.dtype).astype(np.int64)


@family("vabsdiff2")
@family("vabsdiff4")
def packed_distance(code: Code) -> Step:
    """Distances of 16-bit numbers or bytes, side by side; with .add their sum and c."""
    width = 32 // int(code.instruction.family[-1])
    code.type("u32", "s32")
    signs = [code.type("u32", "s32")[0], code.type("u32", "s32")[0]]
    adds = code.flag("add")
    code.count(4)
    write = code.write(0, "u32")
    a, b, c = code.read(1, "b32"), code.read(2, "b32"), code.read(3, "u32")

    def step(f: Frame) -> None:
        x, y = a(f), b(f)
        total = c(f).astype(np.int64) if adds else np.zeros((1, 1), np.int64)
        for place in range(32 // width):
            distance = np.abs(_part(x, place, width, signs[0]) - _part(y, place, width, signs[1]))
            total = total + (distance if adds else distance << (width * place))
        write(f, total.astype(np.uint32))

    return step
