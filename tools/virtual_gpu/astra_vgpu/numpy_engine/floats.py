"""f32 and f64 arithmetic, and the approximate functions of the special function unit.

Approximations are computed more precisely than a GPU's; they differ by a few units in the last
place. Where PTX states special values (flushes, zeros, NaN), those hold.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from astra_vgpu.numpy_engine import rounding
from astra_vgpu.numpy_engine.code import Code, Step, elementwise, family
from astra_vgpu.numpy_engine.doubles import EXACT
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.rounding import MODES, flush, saturate

Function = Callable[..., Array]


def _finish(code: Code, compute: Function, type_name: str) -> Step:
    """With .ftz and .sat, where they are written."""
    if code.flag("ftz"):
        compute = _flushing(compute, _ENLARGING.get(code.instruction.family, ()))
    if code.flag("sat"):
        compute = _saturating(compute)
    return elementwise(code, compute, type_name)


_ENLARGING = {
    "mul": (24, 0),
    "fma": (24, 0, 24),
    "mad": (24, 0, 24),
    "div": (24, 0),
    "rcp": (-24,),
}
"""Powers of two by which operands grow where the result is to grow by 2^24."""


def _flushing(compute: Function, powers: tuple[int, ...]) -> Function:
    factors = [np.float32(2.0**power) for power in powers]

    def flushing(*values: Array) -> Array:
        given = [flush(value) for value in values]
        result = compute(*given)
        if not factors:
            return flush(result)
        return rounding.flush_tiny(
            result, lambda: compute(*(v * x for v, x in zip(given, factors, strict=True)))
        )

    return flushing


def _saturating(compute: Function) -> Function:
    return lambda *values: saturate(compute(*values))


def _rounded(code: Code, f32: Callable[[str], Function], f64: Function) -> Step:
    """An operation that exists in four rounding modes."""
    type_name = code.type("f32", "f64")
    mode = code.option(*MODES, default="rn")
    if type_name == "f64":
        directed = EXACT[code.instruction.family]
        return elementwise(code, f64 if mode == "rn" else directed(mode), "f64")
    return _finish(code, f32(mode), "f32")


@family("add", "f32", "f64")
def add(code: Code) -> Step:
    def of(mode: str) -> Function:
        return np.add if mode == "rn" else lambda a, b: rounding.add32(a, b, mode)

    return _rounded(code, of, np.add)


@family("sub", "f32", "f64")
def sub(code: Code) -> Step:
    def of(mode: str) -> Function:
        return np.subtract if mode == "rn" else lambda a, b: rounding.add32(a, -b, mode)

    return _rounded(code, of, np.subtract)


@family("mul", "f32", "f64")
def mul(code: Code) -> Step:
    def of(mode: str) -> Function:
        return np.multiply if mode == "rn" else lambda a, b: rounding.mul32(a, b, mode)

    return _rounded(code, of, np.multiply)


@family("fma", "f32", "f64")
@family("mad", "f32", "f64")
def fma(code: Code) -> Step:
    return _rounded(
        code, lambda mode: lambda a, b, c: rounding.fma32(a, b, c, mode), rounding.fma64
    )


@family("div", "f32", "f64")
def div(code: Code) -> Step:
    style = code.optional("approx", "full")
    if not style:
        return _rounded(code, lambda mode: lambda a, b: rounding.div32(a, b, mode), np.divide)
    code.type("f32")
    return _finish(code, approximate_quotient if style == "approx" else np.divide, "f32")


def approximate_quotient(a: Array, b: Array) -> Array:
    """A * (1/b); for |b| above 2^126 the reciprocal counts as 0, as PTX says."""
    reciprocal = 1 / b
    huge = np.abs(b) > 2.0**126
    if huge.any():
        reciprocal = np.where(huge, np.copysign(np.float32(0), b), reciprocal)
    small = np.abs(b) < 2.0**-126
    result: Array = a * reciprocal
    return np.where(small, a / b, result) if small.any() else result


@family("rcp", "f32", "f64")
def rcp(code: Code) -> Step:
    def exact(mode: str) -> Function:
        return lambda a: rounding.div32(np.ones_like(a), a, mode)

    return _unary(code, np.reciprocal, exact)


@family("sqrt", "f32", "f64")
def sqrt(code: Code) -> Step:
    return _unary(code, np.sqrt, lambda mode: lambda a: rounding.sqrt32(a, mode))


def _unary(code: Code, near: Function, exact: Callable[[str], Function]) -> Step:
    if code.optional("approx"):
        type_name = code.type("f32", "f64")
        if type_name == "f64":
            return elementwise(code, _by_high_words(near) if code.flag("ftz") else near, "f64")
        return _finish(code, near, "f32")
    return _rounded(code, exact, near)


@family("rsqrt", "f32", "f64")
def rsqrt(code: Code) -> Step:
    code.option("approx")
    type_name = code.type("f32", "f64")
    if type_name == "f64":
        root: Function = lambda a: 1 / np.sqrt(a)  # noqa: E731
        return elementwise(code, _by_high_words(root) if code.flag("ftz") else root, "f64")
    return _finish(code, lambda a: in_float64(lambda x: 1 / np.sqrt(x), a), "f32")


def _by_high_words(near: Function) -> Function:
    """.approx.ftz of float64: from the high word to the high word, as if the low ones were 0."""
    return lambda a: _high_word(near(_high_word(a)))


def _high_word(a: Array) -> Array:
    bits = a.view(np.uint64)
    normal = (bits & np.uint64(0x7FF0000000000000)) != 0
    high, sign = bits & np.uint64(0xFFFFFFFF00000000), bits & np.uint64(1 << 63)
    nan = np.uint64(0x7FFFFFFF00000000)
    return np.where(np.isnan(a), nan, np.where(normal, high, sign)).view(np.float64)


def in_float64(function: Function, a: Array) -> Array:
    result: Array = function(a.astype(np.float64)).astype(np.float32)
    return result


def exp2(a: Array) -> Array:
    return in_float64(np.exp2, a)


def log2(a: Array) -> Array:
    return in_float64(np.log2, a)


def tanh(a: Array) -> Array:
    return in_float64(np.tanh, a)


def _special_function(code: Code, function: Function) -> Step:
    code.option("approx")
    code.type("f32")
    return _finish(code, function, "f32")


@family("ex2", "f32")
def ex2(code: Code) -> Step:
    return _special_function(code, exp2)


@family("lg2", "f32")
def lg2(code: Code) -> Step:
    return _special_function(code, log2)


def _of_turns(function: Function) -> Function:
    """A GPU counts angles in turns: a float32 product, cut, and cut again at 25 places."""

    def compute(a: Array) -> Array:
        turns = rounding.mul32(a, _TURNS_IN_A_RADIAN, "rz").astype(np.float64)
        places = np.trunc(np.fmod(turns, 1.0) * 2.0**25)
        return np.asarray(function(2 * np.pi * (places * 2.0**-25)).astype(np.float32))

    return compute


_TURNS_IN_A_RADIAN: Array = np.array(0.5 / np.pi, np.float32)


@family("sin", "f32")
def sin(code: Code) -> Step:
    return _special_function(code, _of_turns(np.sin))


@family("cos", "f32")
def cos(code: Code) -> Step:
    return _special_function(code, _of_turns(np.cos))


@family("tanh", "f32")
def tanh_approx(code: Code) -> Step:
    return _special_function(code, _to_16_places)


def _to_16_places(a: Array) -> Array:
    """The tangent as coarse as a GPU's, which was found up to 129 units in the last place from the
    precise one: what relies on more must not pass."""
    precise = tanh(a)
    bits = precise.view(np.uint32)
    size = bits & np.uint32(0x7FFFFFFF)
    normal = (size >= np.uint32(0x00800000)) & (size < np.uint32(0x7F800000))
    return np.where(normal, (bits + np.uint32(0x80)) & np.uint32(0xFFFFFF00), bits).view(np.float32)


@family("neg", "f32", "f64")
def neg(code: Code) -> Step:
    return _sign_only(code, np.negative)


@family("abs", "f32", "f64")
def absolute(code: Code) -> Step:
    return _sign_only(code, np.abs)


def _sign_only(code: Code, compute: Function) -> Step:
    type_name = code.type("f32", "f64")
    if code.flag("ftz"):
        return elementwise(code, lambda a: compute(flush(a)), type_name)
    return elementwise(code, compute, type_name)


@family("copysign", "f32", "f64")
def copysign(code: Code) -> Step:
    return elementwise(code, lambda a, b: np.copysign(b, a), code.type("f32", "f64"))


@family("min", "f32", "f64")
def minimum(code: Code) -> Step:
    return _extreme(code, rounding.minimum)


@family("max", "f32", "f64")
def maximum(code: Code) -> Step:
    return _extreme(code, rounding.maximum)


def extreme_of(code: Code, compute: Function) -> Function:
    """min or max by the modifiers .NaN and .xorsign.abs."""
    keep_nan = code.flag("NaN")
    if code.flag("xorsign"):
        code.option("abs")
        compute = rounding.of_magnitudes(compute)
    return lambda a, b: compute(a, b, keep_nan=keep_nan)


def _extreme(code: Code, compute: Function) -> Step:
    type_name = code.type("f32", "f64")
    code.count(3)
    if type_name == "f64" and code.flag("xorsign"):
        raise code.refuse(".xorsign of f64")
    chosen = extreme_of(code, compute)
    if code.flag("ftz"):
        return elementwise(code, lambda a, b: chosen(flush(a), flush(b)), type_name)
    return elementwise(code, chosen, type_name)


_TESTS: dict[str, Function] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    # A GPU's answer for zeros, which the PTX ISA leaves open.
    "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= np.finfo(a.dtype).tiny) | (a == 0)),
    "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny),
}


@family("testp", "f32", "f64")
def testp(code: Code) -> Step:
    test = _TESTS[code.option(*_TESTS)]
    return elementwise(code, test, code.type("f32", "f64"), "pred")
