"""cvt between integers, floats and halves, with their roundings and saturations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from astra_vgpu.numpy_engine import doubles, fp8, rounding
from astra_vgpu.numpy_engine.code import Code, Step, elementwise, family
from astra_vgpu.numpy_engine.dtypes import Array, dtype_of
from astra_vgpu.numpy_engine.halves import format_of, join
from astra_vgpu.numpy_engine.rounding import MODES, flush
from astra_vgpu.ptx.syntax import type_bits

Function = Callable[[Array], Array]
_FLOATS = ("f16", "bf16", "f32", "f64")
_INTEGERS = tuple("u8 u16 u32 u64 s8 s16 s32 s64".split())
_TO_INTEGRAL: dict[str, Function] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}


@family("cvt")
def cvt(code: Code) -> Step:
    if any(m in fp8.NAMES for m in code.instruction.modifiers):
        return fp8.convert(code)
    if any(m in ("f16x2", "bf16x2") for m in code.instruction.modifiers):
        return _packed(code)
    if "tf32" in code.instruction.modifiers:
        return _tf32(code)
    integral = code.optional(*_TO_INTEGRAL)
    mode = code.optional(*MODES)
    flushes, saturates, relu = code.flag("ftz"), code.flag("sat"), code.flag("relu")
    target = code.type(*_FLOATS, *_INTEGERS)
    source = code.type(*_FLOATS, *_INTEGERS)
    code.count(2)
    if target in _INTEGERS and source in _INTEGERS:
        convert = _between_integers(source, target, saturates)
    elif target in _INTEGERS:
        convert = _to_integer(code, source, target, integral, flushes)
    elif source in _INTEGERS:
        convert = _from_integer(code, source, target, mode or "rn")
        convert = _then(rounding.saturate, convert) if saturates else convert
    else:
        convert = _between_floats(source, target, integral, mode, flushes, saturates, relu)
        return elementwise(code, convert, source, target)
    if relu:
        raise code.refuse("modifier .relu here")
    return elementwise(code, convert, source, target)


def _then(outer: Function, inner: Function) -> Function:
    return lambda a: outer(inner(a))


def _between_integers(source: str, target: str, saturates: bool) -> Function:
    """Extended by the sign of the source."""
    goal = dtype_of(target)
    if not saturates:
        return lambda a: a.astype(goal)
    have, want = np.iinfo(dtype_of(source)), np.iinfo(goal)
    low, high = max(have.min, want.min), min(have.max, want.max)
    return lambda a: np.clip(a, low, high).astype(goal)


def widened(source: str, flushes: bool = False) -> Function:
    """Any float type to float32 or float64, exactly."""
    if source in ("f16", "bf16"):
        return format_of(source).widen
    return flush if flushes and source == "f32" else lambda a: a


def _to_integer(code: Code, source: str, target: str, integral: str, flushes: bool) -> Function:
    """Clamped to the target's range; NaN becomes 0, or the top bit where 64 bits take part."""
    if not integral:
        raise code.refuse("a conversion to an integer without a rounding")
    to_integral, widen = _TO_INTEGRAL[integral], widened(source, flushes)
    goal: Any = dtype_of(target)
    limits = np.iinfo(goal)
    wide = source == "f64" or type_bits(target) == 64
    bits = type_bits(target)
    nan = np.array(1 << (bits - 1) if wide else 0, f"u{bits // 8}").view(goal)

    def convert(a: Array) -> Array:
        exact = to_integral(widen(a)).astype(np.float64)
        too_high, too_low = exact >= 2.0 ** limits.max.bit_length(), exact < float(limits.min)
        bad = np.isnan(exact)
        inside = np.where(too_high | too_low | bad, 0.0, exact).astype(goal)
        result = np.where(too_high, goal.type(limits.max), inside)
        return np.where(bad, nan, np.where(too_low, goal.type(limits.min), result))

    return convert


def _from_integer(code: Code, source: str, target: str, mode: str) -> Function:
    """Through float64, rounded to odd where it cannot hold 64 bits."""
    if target == "f64":
        return lambda a: doubles.of_integer(a, mode)
    wide = odd_float64 if type_bits(source) == 64 else lambda a: a.astype(np.float64)
    if target == "f32":
        if mode == "rn":
            return lambda a: a.astype(np.float32)
        return lambda a: rounding.float32_of(wide(a), mode)
    form = format_of(target)
    return lambda a: rounding.half_of(wide(a), mode, form.narrow, form.widen)


def odd_float64(a: Array) -> Array:
    """64-bit integers to float64 rounded to odd."""
    low = (a & a.dtype.type(0xFFFFFFFF)).astype(np.float64)
    high = (a >> a.dtype.type(32)).astype(np.float64) * 2.0**32
    return rounding.odd_sum(high, low)


def _between_floats(
    source: str,
    target: str,
    integral: str,
    mode: str,
    flushes: bool,
    saturates: bool,
    relu: bool,
) -> Function:
    steps: list[Function] = [widened(source, flushes)]
    if integral:
        steps.append(_TO_INTEGRAL[integral])
    if relu:
        steps.append(lambda a: np.where(a <= 0, a.dtype.type(0), a))
    if saturates:
        steps.append(rounding.saturate)
    steps.append(narrowed(target, mode or "rn"))
    if flushes and target == "f32":
        steps.append(flush)

    def convert(a: Array) -> Array:
        for step in steps:
            a = step(a)
        return a

    return convert


def narrowed(target: str, mode: str) -> Function:
    """float32 or float64 to any float type."""
    if target == "f64":
        return lambda a: a.astype(np.float64)
    if target == "f32":
        return lambda a: a if a.dtype == np.float32 else rounding.float32_of(a, mode)
    form = format_of(target)
    if mode == "rn":
        return form.narrow
    return lambda a: rounding.half_of(a.astype(np.float64), mode, form.narrow, form.widen)


def _packed(code: Code) -> Step:
    """cvt.rn.bf16x2.f32 d, high, low."""
    mode = code.option("rn", "rz")
    relu = code.flag("relu")
    target = code.type("f16x2", "bf16x2")
    code.type("f32")
    code.count(3)
    narrow = narrowed(target[:-2], mode)
    if relu:
        narrow = _then(narrow, lambda a: np.where(a <= 0, np.float32(0), a))
    write = code.write(0, target)
    high, low = code.read(1, "f32"), code.read(2, "f32")
    return lambda f: write(f, join(narrow(low(f)), narrow(high(f))))


def _tf32(code: Code) -> Step:
    """float32 with the ten leading bits of its fraction: to nearest, ties away, even or cut."""
    mode, relu = code.option("rna", "rn", "rz"), code.flag("relu")
    code.type("tf32")
    code.type("f32")

    def convert(a: Array) -> Array:
        bits = a.view(np.uint32)
        even = (bits >> np.uint32(13)) & np.uint32(1)
        half = np.uint32(0x1000) if mode == "rna" else np.uint32(0xFFF) + even
        near = (bits if mode == "rz" else bits + half) & np.uint32(0xFFFFE000)
        if relu:
            near = np.where(a <= 0, np.uint32(0), near)
        # To nearest with ties away cuts a NaN too, which may leave an infinity: so does an H200.
        lost = bits & np.uint32(0xFFFFE000) if mode == "rna" else np.uint32(0x7FFFFFFF)
        return np.where(np.isnan(a), lost, near)

    return elementwise(code, convert, "f32", "b32")
