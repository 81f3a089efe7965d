"""setp, set, selp, slct."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from astra_vgpu.numpy_engine.code import Code, Step, elementwise, family
from astra_vgpu.numpy_engine.dtypes import HALVES, Array, dtype_of, unsigned
from astra_vgpu.numpy_engine.frame import Frame
from astra_vgpu.numpy_engine.halves import (
    format_of,
    is_packed,
    on_halves,
    split,
)
from astra_vgpu.numpy_engine.rounding import flush
from astra_vgpu.ptx.syntax import Sink, type_bits

Compare = Callable[[Array, Array], Array]
_ORDERED: dict[str, Compare] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
_BOOLEAN = dtype_of("pred")
_INTEGER_TYPES = tuple("b16 b32 b64 u16 u32 u64 s16 s32 s64".split())


def _float_comparison(code: Code) -> Compare:
    """NaN makes the ordered ones false, `ne` included, and the unordered ones (equ, ...) true."""
    if code.flag("num"):
        return lambda a, b: ~(np.isnan(a) | np.isnan(b))
    if code.flag("nan"):
        return lambda a, b: np.isnan(a) | np.isnan(b)
    name = code.option(*_ORDERED, *(f"{ordered}u" for ordered in _ORDERED))
    if name in _ORDERED:
        compare = _ORDERED[name]
        if name == "ne":
            return lambda a, b: (a != b) & ~np.isnan(a) & ~np.isnan(b)
        return compare
    plain = _ORDERED[name[:-1]]
    return lambda a, b: plain(a, b) | np.isnan(a) | np.isnan(b)


def _comparison(code: Code, type_name: str) -> Compare:
    if type_name in ("f32", "f64", *HALVES):
        compare = _float_comparison(code)
        if type_name == "f32" and code.flag("ftz"):
            return lambda a, b: compare(flush(a), flush(b))
        if type_name in HALVES:
            if code.flag("ftz"):
                raise code.refuse(".ftz of halves")
            widen = format_of(type_name).widen
            return lambda a, b: compare(widen(a), widen(b))
        return compare
    name = code.option(*_ORDERED, *_UNSIGNED)
    return _ORDERED[_UNSIGNED.get(name, name)]


@family("setp")
def setp(code: Code) -> Step:
    """p|q = a op b, and its opposite, each joined with c if there is one."""
    type_name = code.last_type
    compare = _comparison(code, type_name)
    code.type(*_INTEGER_TYPES, "f32", "f64", *HALVES)
    if is_packed(type_name):
        return _setp_packed(code, compare, type_name)
    combine = code.optional(*_COMBINE)
    code.count(4 if combine else 3)
    first, second = code.pair(0)
    write = code.writer(first, _BOOLEAN)
    a, b = code.read(1, type_name), code.read(2, type_name)
    if not combine and isinstance(second, Sink):
        return lambda f: write(f, compare(a(f), b(f)))
    write_opposite = code.writer(second, _BOOLEAN)
    merge = _COMBINE[combine or "and"]
    other = code.read(3, "pred") if combine else (lambda f: np.ones((1, 1), np.bool_))

    def step(f: Frame) -> None:
        result, c = compare(a(f), b(f)), other(f)
        write(f, merge(result, c))
        write_opposite(f, merge(~result, c))

    return step


def _setp_packed(code: Code, compare: Compare, type_name: str) -> Step:
    """p is for the lower halves, q for the upper ones."""
    code.count(3)
    writes = [code.writer(operand, _BOOLEAN) for operand in code.pair(0)]
    a, b = code.read(1, type_name), code.read(2, type_name)

    def step(f: Frame) -> None:
        for write, x, y in zip(writes, split(a(f)), split(b(f)), strict=True):
            write(f, compare(x, y))

    return step


@family("set")
def set_(code: Code) -> Step:
    """All ones, or 1.0 in a float type, where the comparison holds."""
    source = code.last_type
    compare = _comparison(code, source)
    result = code.type("u16", "s16", "u32", "s32", "f32", *HALVES)
    code.type(*_INTEGER_TYPES, "f32", "f64", *HALVES)
    code.count(3)
    if is_packed(source):
        each = "f16" if result == "f16x2" else "bf16" if result == "bf16x2" else "u16"
        return elementwise(code, on_halves(source, _flag(compare, each)), source)
    return elementwise(code, _flag(compare, result), source, result)


def _flag(compare: Compare, result: str) -> Compare:
    one: Array = np.array(
        {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}.get(
            result, (1 << type_bits(result)) - 1
        ),
        unsigned(type_bits(result)),
    ).view(dtype_of(result))
    return lambda a, b: np.where(compare(a, b), one, np.zeros((), one.dtype))


@family("selp")
def selp(code: Code) -> Step:
    type_name = code.type(*_INTEGER_TYPES, "f32", "f64", "f16", "bf16")
    code.count(4)
    write = code.write(0, type_name)
    a, b, c = code.read(1, type_name), code.read(2, type_name), code.read(3, "pred")
    return lambda f: write(f, np.where(c(f), a(f), b(f)))


@family("slct")
def slct(code: Code) -> Step:
    """A where c is not negative, else b."""
    flushes = code.flag("ftz")
    type_name = code.type(*_INTEGER_TYPES, "f32", "f64")
    by = code.type("s32", "f32")
    code.count(4)
    write = code.write(0, type_name)
    a, b, c = code.read(1, type_name), code.read(2, type_name), code.read(3, by)

    def step(f: Frame) -> None:
        chooser = flush(c(f)) if flushes else c(f)
        write(f, np.where(chooser >= 0, a(f), b(f)))

    return step
