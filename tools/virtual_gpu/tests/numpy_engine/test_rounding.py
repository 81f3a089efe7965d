"""Float instructions on random and hand-picked bits against exact fractions, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.numpy_engine.exact import (
    BF16,
    F16,
    F32,
    F64,
    Binary,
    float_of,
    operand,
)

FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
Exact = Callable[..., Fraction]
QUICK = settings(max_examples=12, deadline=None, phases=[Phase.generate], database=None)
"""Each example is a batch of up to 120 rows; shrinking one is not worth its time."""


def special_bits(form: Binary) -> list[int]:
    one = ((1 << (form.exponent_bits - 1)) - 1) << form.fraction_bits
    positive = [
        0,
        1,
        2,
        (1 << form.fraction_bits) - 1,
        1 << form.fraction_bits,
        one,
        one + 1,
        one - 1,
        form.infinity - 1,
        form.infinity,
        form.infinity + 1,
        one + (1 << form.fraction_bits),
    ]
    return positive + [bits | form.sign for bits in positive]


def bits_of(form: Binary) -> st.SearchStrategy[int]:
    """Any bits; values near one, whose sums and products round; and the corner cases."""
    middle = ((1 << (form.exponent_bits - 1)) - 1) << form.fraction_bits
    near = st.integers(-(4 << form.fraction_bits), 4 << form.fraction_bits).map(
        lambda step: middle + step
    )
    everything = st.integers(0, (1 << form.width) - 1)
    signed = st.tuples(near, st.booleans()).map(lambda x: x[0] | (form.sign if x[1] else 0))
    return st.one_of(everything, signed, st.sampled_from(special_bits(form)))


def batches(form: Binary, operands: int) -> st.SearchStrategy[list[tuple[int, ...]]]:
    return st.lists(st.tuples(*[bits_of(form)] * operands), min_size=40, max_size=120)


def columns(rows: list[tuple[int, ...]], form: Binary) -> list[Any]:
    dtype = {16: np.uint16, 32: np.uint32, 64: np.uint64}[form.width]
    return [np.array(column, dtype) for column in zip(*rows, strict=True)]


def check_rows(
    rows: list[tuple[int, ...]], got: Any, form: Binary, mode: str, exact: Exact, same_sign: bool
) -> None:
    for row, bits in zip(rows, (int(x) for x in got), strict=True):
        if not all(form.is_finite(x) for x in row):
            continue
        values = [form.value(x) for x in row]
        try:
            result = exact(*values)
        except ZeroDivisionError:
            continue
        expected = form.round(result, mode)
        if result == 0 or not same_sign:
            assert (bits & ~form.sign) == (expected & ~form.sign), (row, bits, expected)
        else:
            assert bits == expected, ([hex(x) for x in row], hex(bits), hex(expected))


def add(a: Fraction, b: Fraction) -> Fraction:
    return a + b


def sub(a: Fraction, b: Fraction) -> Fraction:
    return a - b


def mul(a: Fraction, b: Fraction) -> Fraction:
    return a * b


def div(a: Fraction, b: Fraction) -> Fraction:
    return a / b


def fma(a: Fraction, b: Fraction, c: Fraction) -> Fraction:
    return a * b + c


SUMS = [("add", add, 2), ("sub", sub, 2), ("mul", mul, 2), ("fma", fma, 3)]


@pytest.mark.parametrize(("name", "exact", "operands"), [*SUMS, ("div", div, 2)])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_f32_rounds_once_in_every_mode(
    operate: Any, name: str, exact: Exact, operands: int, mode: str
) -> None:
    @QUICK
    @given(batches(F32, operands))
    def check(rows: list[tuple[int, ...]]) -> None:
        got = operate(f"{name}.{mode}.f32", np.uint32, *columns(rows, F32))
        check_rows(rows, got, F32, mode, exact, True)

    check()


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_f32_roots_and_reciprocals(operate: Any, mode: str) -> None:
    @QUICK
    @given(batches(F32, 1))
    def check(rows: list[tuple[int, ...]]) -> None:
        (bits,) = columns(rows, F32)
        inverse = operate(f"rcp.{mode}.f32", np.uint32, bits)
        check_rows(rows, inverse, F32, mode, lambda a: 1 / a, True)
        roots = operate(f"sqrt.{mode}.f32", np.uint32, bits)
        for (x,), root in zip(rows, (int(r) for r in roots), strict=True):
            if F32.is_finite(x) and not x & F32.sign and x:
                assert root == _root(F32.value(x), mode), hex(x)

    check()


def _root(value: Fraction, mode: str, form: Binary = F32) -> int:
    """Exact by integers: the root to 80 bits and more, with a sticky bit below."""
    shift = 400 if form is F32 else 2400
    scaled = value * Fraction(2) ** shift
    whole = math.isqrt(math.floor(scaled))
    sticky = Fraction(1, 3) if whole * whole != scaled else Fraction(0)
    return form.round((whole + sticky) / Fraction(2) ** (shift // 2), mode)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(("name", "exact", "operands"), [*SUMS, ("div", div, 2)])
def test_f64_rounds_once(operate: Any, name: str, exact: Exact, operands: int, mode: str) -> None:
    @QUICK
    @given(batches(F64, operands))
    def check(rows: list[tuple[int, ...]]) -> None:
        got = operate(f"{name}.{mode}.f64", np.uint64, *columns(rows, F64))
        check_rows(rows, got, F64, mode, exact, True)

    check()


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_f64_roots_and_reciprocals(operate: Any, mode: str) -> None:
    @QUICK
    @given(batches(F64, 1))
    def check(rows: list[tuple[int, ...]]) -> None:
        (bits,) = columns(rows, F64)
        inverse = operate(f"rcp.{mode}.f64", np.uint64, bits)
        check_rows(rows, inverse, F64, mode, lambda a: 1 / a, True)
        roots = operate(f"sqrt.{mode}.f64", np.uint64, bits)
        for (x,), root in zip(rows, (int(r) for r in roots), strict=True):
            if F64.is_finite(x) and not x & F64.sign and x:
                assert root == _root(F64.value(x), mode, F64), hex(x)

    check()


def test_an_exact_zero_is_negative_where_the_mode_is_down(operate: Any) -> None:
    one, zero, minus = (np.array([x]) for x in (1.0, 0.0, -0.0))
    for mode, sign in (("rm", True), ("rp", False), ("rz", False)):
        sums = (("add", (one, -one)), ("sub", (one, one)), ("fma", (one, one, -one)))
        for name, operands in sums:
            got = operate(f"{name}.{mode}.f64", np.float64, *operands)
            assert got[0] == 0 and np.signbit(got[0]) == sign, (name, mode)
            singles = [x.astype(np.float32) for x in operands]
            got = operate(f"{name}.{mode}.f32", np.float32, *singles)
            assert got[0] == 0 and np.signbit(got[0]) == sign, (name, mode)
        assert np.signbit(operate(f"add.{mode}.f64", np.float64, zero, minus)[0]) == sign
        assert not np.signbit(operate(f"add.{mode}.f64", np.float64, zero, zero)[0])


@pytest.mark.parametrize(("name", "exact", "operands"), SUMS)
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_halves_round_once(operate: Any, kind: str, name: str, exact: Exact, operands: int) -> None:
    form = FORMATS[kind]
    mode = ".rn" if name == "fma" else ""

    @QUICK
    @given(batches(form, operands))
    def check(rows: list[tuple[int, ...]]) -> None:
        single = operate(f"{name}{mode}.{kind}", np.uint16, *columns(rows, form))
        check_rows(rows, single, form, "rn", exact, True)
        even = rows[: len(rows) // 2 * 2]
        pairs = [column.view(np.uint32) for column in columns(even, form)]
        packed = operate(f"{name}{mode}.{kind}x2", np.uint32, *pairs)
        assert np.array_equal(packed.view(np.uint16), single[: len(even)])

    check()


def test_fma_of_f32_at_a_tie_broken_far_below(operate: Any) -> None:
    """float64 rounds the sum to a tie of float32; only one rounding gets it right."""
    a = np.array([1 + 2**-12, 1 + 2**-12, -(1 + 2**-12)], np.float32)
    c = np.array([2**-80, -(2**-80), 2**-80], np.float32)
    tie = Fraction(float(a[0])) ** 2
    assert F32.round(tie) != F32.round(tie + Fraction(1, 2**80))
    got = operate("fma.rn.f32", np.uint32, a, np.abs(a), c)
    expected = [
        F32.round(Fraction(float(x)) * abs(Fraction(float(x))) + Fraction(float(y)))
        for x, y in zip(a, c, strict=True)
    ]
    assert list(got) == expected


@pytest.mark.parametrize("far", [2.0**-30, -(2.0**-30), 2.0**-60, -(2.0**-60)])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_fma_of_halves_at_a_tie_broken_far_below(operate: Any, kind: str, far: float) -> None:
    """7/4 * 37/64 lies half-way between two bf16, 51/32 * 67/64 between two f16."""
    form = FORMATS[kind]
    factors = (1.75, 0.578125) if kind == "bf16" else (1.59375, 1.046875)
    if kind == "f16":
        far = math.copysign(2.0**-24, far)
    a, b, c = (np.array([form.round(Fraction(x))], np.uint16) for x in (*factors, far))
    exact = Fraction(factors[0]) * Fraction(factors[1])
    assert form.round(exact + Fraction(far)) != form.round(exact - Fraction(far))
    got = operate(f"fma.rn.{kind}", np.uint16, a, b, c)
    assert got[0] == form.round(exact + Fraction(far))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_float_to_half(operate: Any, kind: str, mode: str) -> None:
    form = FORMATS[kind]

    @QUICK
    @given(batches(F32, 1))
    def check(rows: list[tuple[int, ...]]) -> None:
        (bits,) = columns(rows, F32)
        got = operate(f"cvt.{mode}.{kind}.f32", np.uint16, bits)
        for (x,), result in zip(rows, (int(r) for r in got), strict=True):
            if F32.is_finite(x):
                assert result == form.round(F32.value(x), mode, x & F32.sign), hex(x)
            elif F32.is_nan(x):
                assert result == 0x7FFF
            else:
                assert result == form.infinity | (form.sign if x & F32.sign else 0)

    check()


def test_every_half_widens_exactly(operate: Any) -> None:
    everything = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    assert np.array_equal(
        operate("cvt.f32.f16", np.float32, everything),
        everything.view(np.float16).astype(np.float32),
        equal_nan=True,
    )
    got = operate("cvt.f32.bf16", np.uint32, everything)
    assert np.array_equal(got, everything.astype(np.uint32) << 16)


def test_packed_conversion_takes_the_upper_half_first(operate: Any) -> None:
    high, low = np.array([1.5], np.float32), np.array([-2.0], np.float32)
    got = operate("cvt.rn.f16x2.f32", np.uint32, high, low)
    assert list(got.view(np.float16)) == [-2.0, 1.5]
    assert operate("cvt.rn.relu.bf16x2.f32", np.uint32, high, low)[0] == 0x3FC00000


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source", ["s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_integer_to_float(operate: Any, source: str, mode: str, kind: str) -> None:
    width, form = int(source[1:]), FORMATS[kind]
    dtype = np.dtype(f"{'i' if source[0] == 's' else 'u'}{width // 8}")
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(3)
    values = rng.integers(limits.min, limits.max, 300, dtype=dtype, endpoint=True)
    values[:100] >>= dtype.type(width // 2)
    values[:6] = [0, 1, limits.max, limits.min, (1 << 24) + 1, (1 << 25) + 2]
    result = {16: np.uint16, 32: np.uint32, 64: np.uint64}[form.width]
    got = operate(f"cvt.{mode}.{kind}.{source}", result, values)
    assert [int(x) for x in got] == [form.round(Fraction(int(v)), mode) for v in values]


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("target", ["s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_float_to_integer_saturates(operate: Any, source: str, target: str, mode: str) -> None:
    form, width = FORMATS[source], int(target[1:])
    dtype = np.dtype(f"{'i' if target[0] == 's' else 'u'}{width // 8}")
    limits = np.iinfo(dtype)
    to_integral: dict[str, Callable[[Fraction], int]] = {
        "rni": round,
        "rzi": math.trunc,
        "rmi": math.floor,
        "rpi": math.ceil,
    }
    rng = np.random.default_rng(5)
    values = np.concatenate(
        [
            rng.standard_normal(200) * 10.0 ** rng.integers(0, 22, 200),
            np.arange(-40, 40) / 4,
            [np.inf, -np.inf, np.nan, 2.0**31, -(2.0**31), 2.0**63, 2.0**64, 65535.5],
        ]
    ).astype(np.float32 if source == "f32" else np.float64)
    got = operate(f"cvt.{mode}.{target}.{source}", dtype, values)
    raw = values.view(np.uint32 if source == "f32" else np.uint64)
    wide = source == "f64" or width == 64
    nan = np.array(1 << (width - 1), f"u{width // 8}").view(dtype) if wide else 0
    for bits, result in zip((int(b) for b in raw), got, strict=True):
        if form.is_nan(bits):
            assert result == nan
        elif form.is_finite(bits):
            exact = to_integral[mode](form.value(bits))
            assert int(result) == min(max(exact, limits.min), limits.max)
        else:
            assert result == (limits.min if bits & form.sign else limits.max)


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
def test_extremes_drop_nan_and_order_zeros(operate: Any, name: str, kind: str) -> None:
    form = FORMATS[kind]
    dtype = {16: np.uint16, 32: np.uint32, 64: np.uint64}[form.width]
    bits = np.array(special_bits(form), dtype)
    a, b = (x.reshape(-1).copy() for x in np.meshgrid(bits, bits))
    plain = operate(f"{name}.{kind}", dtype, a, b)
    keeping = operate(f"{name}.NaN.{kind}", dtype, a, b) if kind != "f64" else None
    choose = min if name == "min" else max
    for place, (x, y) in enumerate(zip((int(v) for v in a), (int(v) for v in b), strict=True)):
        nans = form.is_nan(x) + form.is_nan(y)
        key = {v: (float_of(v, form), -(v & form.sign)) for v in (x, y) if not form.is_nan(v)}
        result = int(plain[place])
        assert form.is_nan(result) if nans == 2 else result == choose(key, key=key.__getitem__)
        if keeping is not None:
            kept = int(keeping[place])
            assert form.is_nan(kept) if nans else kept == result


def test_flush_only_where_it_is_written(operate: Any) -> None:
    tiny = np.array([1e-40, -1e-40, 1.2e-38, -0.0], np.float32)
    one, half = np.float32([1.0]), np.float32([0.5])
    assert np.array_equal(operate("mul.f32", np.float32, tiny, one), tiny)
    flushed = operate("mul.ftz.f32", np.float32, tiny, one)
    assert list(flushed) == [0, 0, np.float32(1.2e-38), 0]
    assert list(np.signbit(flushed)) == [False, True, False, True]
    assert operate("mul.ftz.f32", np.float32, np.float32([1.2e-38]), half)[0] == 0
    assert operate("add.ftz.f32", np.float32, tiny, np.float32([0]))[0] == 0
    assert operate("fma.rn.ftz.f32", np.float32, tiny, one, one)[0] == 1
    assert list(operate("setp.gt.f32", bool, tiny, np.float32([0]))) == [True, False, True, False]
    ordered = operate("setp.gt.ftz.f32", bool, tiny, np.float32([0]))
    assert list(ordered) == [False, False, True, False]
    assert operate("cvt.ftz.f64.f32", np.float64, tiny)[0] == 0


def test_saturation(operate: Any) -> None:
    values = np.array([-1, 0.25, 2, np.nan, np.inf, -0.0], np.float32)
    expected = [0, 0.25, 1, 0, 1, 0]
    assert list(operate("cvt.sat.f32.f32", np.float32, values)) == expected
    assert list(operate("add.sat.f32", np.float32, values, np.float32([0]))) == expected
    halves = values.astype(np.float16).view(np.uint16)
    zero = np.zeros(1, np.uint16)
    got = operate("add.sat.f16", np.uint16, halves, zero).view(np.float16)
    assert list(got) == expected


APPROXIMATE: list[tuple[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]]] = [
    ("ex2", np.exp2),
    ("lg2", np.log2),
    ("tanh", np.tanh),
    ("rcp", np.reciprocal),
    ("sqrt", np.sqrt),
    ("rsqrt", lambda x: 1 / np.sqrt(x)),
]


@pytest.mark.parametrize(("name", "function"), APPROXIMATE)
@pytest.mark.parametrize("flush", ["", ".ftz"])
def test_approximations_are_as_precise_as_said(
    operate: Any, name: str, function: Callable[..., Any], flush: str
) -> None:
    if name == "tanh":
        flush = ""  # ptxas knows it without only
    rng = np.random.default_rng(2)
    values = np.exp(rng.uniform(-80, 80, 500)).astype(np.float32)
    if name == "ex2":
        values = rng.uniform(-60, 60, 500).astype(np.float32)
    if name == "tanh":
        values = rng.uniform(-10, 10, 500).astype(np.float32)
    got = operate(f"{name}.approx{flush}.f32", np.float32, values).astype(np.float64)
    expected = function(values.astype(np.float64))
    error = np.abs((got - expected) / expected).max()
    assert 2.0**-18 < error <= 2.0**-16 if name == "tanh" else error < 2.0**-23


@pytest.mark.parametrize(("name", "function"), [("sin", np.sin), ("cos", np.cos)])
def test_angles_are_within_the_documented_bounds(
    operate: Any, name: str, function: Callable[..., Any]
) -> None:
    for turns, bound in ((1, 2.0**-20.5), (50, 2.0**-14.7)):
        angles = np.float32(np.random.default_rng(3).uniform(-2, 2, 500) * np.pi * turns)
        got = operate(f"{name}.approx.f32", np.float32, angles)
        assert np.abs(got - function(angles.astype(np.float64))).max() < bound
    zeros = operate(f"{name}.approx.f32", np.float32, np.float32([0.0, -0.0]))
    assert list(np.signbit(zeros)) == [False, name == "sin"]


def test_gross_approximations_of_doubles_have_empty_low_words(operate: Any) -> None:
    a = np.float64([3.0, -7.3, 1e-310, np.inf])
    got = operate("rcp.approx.ftz.f64", np.uint64, a)
    assert not (got & np.uint64(0xFFFFFFFF)).any()
    exact = [1 / 3, -1 / 7.3, np.inf, 0.0]
    assert np.allclose(got.view(np.float64), exact, rtol=2.0**-19)


def test_special_values_of_approximations(operate: Any) -> None:
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0], np.float32)
    inf, nan = np.inf, np.nan
    tables = {
        "ex2": [1, 1, inf, 0, nan, 0.5],
        "lg2": [-inf, -inf, inf, nan, nan, nan],
        "rcp": [inf, -inf, 0, -0.0, nan, -1],
        "rsqrt": [inf, -inf, 0, nan, nan, nan],
        "sqrt": [0, -0.0, inf, nan, nan, nan],
    }
    for name, expected in tables.items():
        got = operate(f"{name}.approx.f32", np.float32, values)
        assert np.array_equal(got, np.float32(expected), equal_nan=True), name
    assert operate("rcp.approx.ftz.f32", np.float32, np.float32([1e-40]))[0] == inf


def test_fast_division_beyond_its_range(operate: Any) -> None:
    a = np.float32([1, -3, np.inf, 6])
    b = np.float32([1e38, 1e38, 1e38, 2])
    got = operate("div.approx.f32", np.float32, a, b)
    assert np.array_equal(got, np.float32([0, -0.0, np.nan, 3]), equal_nan=True)
    assert operate("div.full.f32", np.float32, a, b)[0] == np.float32(1) / np.float32(1e38)


@pytest.mark.parametrize("mode", ["rna", "rn", "rz"])
def test_float_to_tf32(operate: Any, mode: str) -> None:
    tf32 = Binary(exponent_bits=8, fraction_bits=10)

    @QUICK
    @given(batches(F32, 1))
    def check(rows: list[tuple[int, ...]]) -> None:
        (bits,) = columns(rows, F32)
        got = operate(f"cvt.{mode}.tf32.f32", np.uint32, bits)
        for (x,), result in zip(rows, (int(r) for r in got), strict=True):
            if F32.is_nan(x):
                assert result == (x & 0xFFFFE000 if mode == "rna" else 0x7FFFFFFF)
            elif F32.is_finite(x):
                tie = mode == "rna" and x & 0x1FFF == 0x1000
                exact = F32.value(x + 1 if tie else x)
                assert result >> 13 == tf32.round(exact, mode[:2], x & F32.sign), hex(x)

    check()


def test_what_is_rounded_up_to_the_least_normal_number_is_flushed(operate: Any) -> None:
    """A flush looks at the result as if its exponent were unlimited, as an H200 answered."""
    least, below = np.uint32([0x00800000]), np.uint32([0x3F7FFFFF])
    a, b = least.view(np.float32), below.view(np.float32)
    assert operate("mul.rn.ftz.f32", np.float32, a, b) == [0]
    assert operate("mul.rn.f32", np.uint32, a, b) == [0x00800000]
    assert operate("fma.rn.ftz.f32", np.uint32, -a, b, a * 0) == [0x80000000]
    assert operate("div.rp.ftz.f32", np.float32, a, np.float32([1 + 2.0**-23])) == [0]
    x, y = np.uint16([0xAD77]), np.uint16([0x91DB])
    assert operate("mul.rn.ftz.f16", np.uint16, x, y) == [0x0400]


def test_cut_fields_of_64_bits_take_whole_numbers(operate: Any) -> None:
    value, far = np.uint64([0x320CD73B5961C58F]), np.uint32([0x3250EF1B])
    assert operate("bfe.u64", np.uint64, value, far, far) == [0]
    assert operate("bfi.b64", np.uint64, value, value + np.uint64(1), far, far) == value + 1


def test_tf32_cuts_a_nan(operate: Any) -> None:
    assert operate("cvt.rna.tf32.f32", np.uint32, np.uint32([0x7F800CBD]).view(np.float32)) == [
        0x7F800000
    ]


@pytest.mark.parametrize("how", ["min", "max"])
@pytest.mark.parametrize("nan", ["", ".NaN"])
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_extremes_of_magnitudes_have_the_sign_of_a_product(
    operate: Any, how: str, nan: str, kind: str
) -> None:
    values = [0.0, -0.0, 1.5, -1.5, -2.0, np.inf, -np.inf, np.nan]
    a, b = (np.array(pair, np.float32) for pair in zip(*product(values, values), strict=True))
    size = {"min": np.fmin, "max": np.fmax}[how](np.abs(a), np.abs(b))
    wanted = np.copysign(size, np.where(np.signbit(a) ^ np.signbit(b), -1, 1)).astype(np.float32)
    lost = np.isnan(a) | np.isnan(b) if nan else np.isnan(a) & np.isnan(b)
    out = {"f32": np.float32, "f16": np.uint16, "bf16": np.uint16}[kind]
    name = f"{how}{nan}.xorsign.abs.{kind}"
    found = operate(name, out, *(operand(x, kind) for x in (a, b)))
    canonical = {"f32": 0x7FFFFFFF, "f16": 0x7FFF, "bf16": 0x7FFF}[kind]
    raw = operand(wanted, kind).view(np.uint32 if kind == "f32" else np.uint16)
    expected = np.where(lost, np.array(canonical, raw.dtype), raw)
    assert np.array_equal(found.view(raw.dtype), expected)
