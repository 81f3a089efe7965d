"""setp, set, selp, slct, mov with packing: the rest of what moves bits and predicates."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from tests.numpy_engine.exact import operand

NAN = np.nan
LEFT = np.array([1, 2, 3, NAN, 1, NAN, -0.0, np.inf], np.float32)
RIGHT = np.array([2, 2, 1, 1, NAN, NAN, 0.0, np.inf], np.float32)
COMPARE = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@pytest.mark.parametrize("name", COMPARE)
@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
def test_ordered_and_unordered(operate: Any, name: str, kind: str) -> None:
    a, b = (operand(x, kind) for x in (LEFT, RIGHT))
    unordered = np.isnan(LEFT) | np.isnan(RIGHT)
    plain = COMPARE[name](LEFT, RIGHT)
    assert np.array_equal(operate(f"setp.{name}.{kind}", bool, a, b), plain & ~unordered)
    assert np.array_equal(operate(f"setp.{name}u.{kind}", bool, a, b), plain | unordered)
    assert np.array_equal(operate(f"setp.num.{kind}", bool, a, b), ~unordered)
    assert np.array_equal(operate(f"setp.nan.{kind}", bool, a, b), unordered)


@pytest.mark.parametrize("name", COMPARE)
def test_integers_compare_by_their_type(operate: Any, name: str) -> None:
    a = np.array([1, 0xFFFFFFFF, 5, 0x80000000], np.uint32)
    b = np.array([0xFFFFFFFF, 1, 5, 0x7FFFFFFF], np.uint32)
    assert np.array_equal(operate(f"setp.{name}.u32", bool, a, b), COMPARE[name](a, b))
    signed = COMPARE[name](a.view(np.int32), b.view(np.int32))
    assert np.array_equal(operate(f"setp.{name}.s32", bool, a, b), signed)
    unsigned = {"lt": "lo", "le": "ls", "gt": "hi", "ge": "hs"}.get(name)
    if unsigned:
        assert np.array_equal(operate(f"setp.{unsigned}.u32", bool, a, b), COMPARE[name](a, b))


@pytest.mark.parametrize("join", ["and", "or", "xor"])
def test_two_destinations_and_a_joined_predicate(operate: Any, join: str) -> None:
    a = np.array([1, 1, 2, 2], np.uint32)
    c = np.array([0, 1, 0, 1], np.uint32)
    body = (
        "{ .reg .pred c, p, q; .reg .b32 x, y; setp.ne.u32 c, %a1, 0; "
        f"setp.eq.{join}.u32 p|q, %a0, 1, !c; "
        "selp.u32 x, 1, 0, p; selp.u32 y, 2, 0, q; add.u32 %out, x, y; }"
    )
    got = operate("", np.uint32, a, c, body=body)
    logic = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[join]
    first, second = logic(a == 1, c == 0), logic(a != 1, c == 0)
    assert np.array_equal(got, first + 2 * second)


def test_set_gives_ones_or_one(operate: Any) -> None:
    a = np.array([1.0, NAN, 3.0], np.float32)
    b = np.array([1.0, 1.0, 4.0], np.float32)
    assert list(operate("set.eq.u32.f32", np.uint32, a, b)) == [0xFFFFFFFF, 0, 0]
    assert list(operate("set.ltu.f32.f32", np.float32, a, b)) == [0, 1, 1]
    packed = np.array([0x3C003C00, 0x7E000000], np.uint32)
    other = np.array([0x3C000000, 0x7E000000], np.uint32)
    assert list(operate("set.eq.f16x2.f16x2", np.uint32, packed, other)) == [0x3C000000, 0x00003C00]
    assert list(operate("set.neu.u32.f16x2", np.uint32, packed, other)) == [0x0000FFFF, 0xFFFF0000]


def test_packed_comparison_has_a_predicate_a_half(operate: Any) -> None:
    a, b = np.array([0x3C004000], np.uint32), np.array([0x3C003C00], np.uint32)
    body = (
        "{ .reg .pred p, q; .reg .b32 x, y; setp.gt.f16x2 p|q, %a0, %a1; "
        "selp.u32 x, 1, 0, p; selp.u32 y, 2, 0, q; add.u32 %out, x, y; }"
    )
    assert operate("", np.uint32, a, b, body=body)[0] == 1


def test_select_by_sign(operate: Any) -> None:
    a, b = np.array([1, 1, 1], np.uint32), np.array([2, 2, 2], np.uint32)
    c = np.array([0, 5, -5], np.int32)
    assert list(operate("slct.u32.s32", np.uint32, a, b, c)) == [1, 1, 2]
    f = np.array([-0.0, NAN, -5], np.float32)
    assert list(operate("slct.u32.f32", np.uint32, a, b, f)) == [1, 2, 2]


def test_guards_keep_what_was_there(operate: Any) -> None:
    a = np.arange(6, dtype=np.uint32)
    body = (
        "{ .reg .pred p; setp.gt.u32 p, %a0, 2; mov.u32 %out, 7; "
        "@p mul.lo.u32 %out, %a0, 10; @!p add.u32 %out, %out, 1; }"
    )
    assert list(operate("", np.uint32, a, body=body)) == [8, 8, 8, 30, 40, 50]


def test_guards_reach_only_the_lanes_that_are_here(operate: Any) -> None:
    """A guarded write on one side of a branch, to a register that the other side has set."""
    a = np.arange(6, dtype=np.uint32)
    body = (
        "{ .reg .pred here, odd; .reg .b32 bit; mov.u32 %out, 7; and.b32 bit, %a0, 1; "
        "setp.eq.u32 odd, bit, 1; setp.lt.u32 here, %a0, 3; @!here bra AFTER; "
        "@odd mov.u32 %out, 9; add.u32 %a0, %a0, 10; AFTER: add.u32 %out, %out, %a0; }"
    )
    assert list(operate("", np.uint32, a, body=body)) == [17, 20, 19, 10, 11, 12]


def test_packing_and_unpacking(operate: Any) -> None:
    a = np.array([0x0123456789ABCDEF], np.uint64)
    body = (
        "{ .reg .b16 h<4>; .reg .b32 w<2>; mov.b64 {h0, h1, h2, h3}, %a0; "
        "mov.b32 w0, {h3, h0}; mov.b64 {w1, _}, %a0; mov.b64 %out, {w1, w0}; }"
    )
    assert operate("", np.uint64, a, body=body)[0] == 0xCDEF012389ABCDEF


def test_a_mov_does_not_alias(operate: Any) -> None:
    a = np.arange(4, dtype=np.uint32)
    body = (
        "{ .reg .b32 x; .reg .pred p; mov.u32 x, %a0; setp.eq.u32 p, %a0, 2; "
        "@p mov.u32 %a0, 100; add.u32 %out, x, %a0; }"
    )
    assert list(operate("", np.uint32, a, body=body)) == [0, 2, 102, 6]


def test_switch_by_table(operate: Any) -> None:
    a = np.array([0, 1, 2, 1, 0, 2, 2], np.uint32)
    body = (
        "mov.u32 %out, 0; brx.idx %a0, $table; $table: .branchtargets A, B, C;\n"
        "A: mov.u32 %out, 10; bra.uni D; B: mov.u32 %out, 20; bra D; C: mov.u32 %out, 30; D:\n"
    )
    assert list(operate("", np.uint32, a, body=body)) == [10, 20, 30, 20, 10, 30, 30]


def test_negation_of_packed_halves(operate: Any) -> None:
    a = np.array([0x3C00BC00, 0x7FFF0000], np.uint32)
    assert list(operate("neg.bf16x2", np.uint32, a)) == [0xBC003C00, 0xFFFF8000]
    assert list(operate("abs.f16x2", np.uint32, a)) == [0x3C003C00, 0x7FFF0000]


def test_copysign_takes_the_sign_of_the_first(operate: Any) -> None:
    a, b = np.float32([-1, 1]), np.float32([5, -6])
    assert list(operate("copysign.f32", np.float32, a, b)) == [-5, 6]


def test_testp(operate: Any) -> None:
    a = np.float32([1, np.inf, NAN, 1e-40, 0])
    expected = {
        "finite": [1, 0, 0, 1, 1],
        "infinite": [0, 1, 0, 0, 0],
        "number": [1, 1, 0, 1, 1],
        "notanumber": [0, 0, 1, 0, 0],
        "normal": [1, 0, 0, 0, 1],
        "subnormal": [0, 0, 0, 1, 0],
    }
    for name, values in expected.items():
        assert list(operate(f"testp.{name}.f32", bool, a)) == [bool(v) for v in values], name
