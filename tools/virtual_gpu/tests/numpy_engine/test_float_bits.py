"""Integer instructions see the NaN of a GPU's arithmetic, and that of memory as it is."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numpy_engine.conftest import Bench

from astra_vgpu.ptx.parser import parse

HEAD = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in)
{
    .shared .align 4 .b8 tile[128];
    .reg .pred %p<2>; .reg .b16 %h<9>; .reg .b32 %r<29>; .reg .f32 %f<29>; .reg .b64 %d<9>;
    ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in];
    mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4;
    add.s64 %d0, %d0, %d2; add.s64 %d1, %d1, %d2;
    setp.lt.u32 %p0, %r0, 2;
    ld.global.f32 %f0, [%d1];
"""
TAIL = "st.global.u32 [%d0], %r1; ret; }"
READ = "mov.b32 %r1, %f1;"
LOADED = [0x7FC00000, 0xFFC12345, 0x7F800001, 0x3F800000]
"""Bits that lanes load: three NaNs and 1."""
NAN, ONE = 0x7FFFFFFF, 0x3F800000


def run(body: str, loaded: list[int] = LOADED) -> list[int]:
    out, given = np.zeros(4, np.uint32), np.array(loaded, np.uint32)
    Bench(parse(f"{HEAD}{body}{TAIL}")).launch("k", 1, 4, out, given)
    return [int(bits) for bits in out]


@pytest.mark.parametrize(
    ("body", "of_one"),
    [
        ("add.f32 %f1, %f0, %f0;", 0x40000000),
        ("sub.rz.f32 %f1, %f0, %f0;", 0),
        ("mul.ftz.f32 %f1, %f0, %f0;", ONE),
        ("fma.rn.f32 %f1, %f0, %f0, %f0;", 0x40000000),
        ("div.rn.f32 %f1, %f0, %f0;", ONE),
        ("rcp.approx.f32 %f1, %f0;", ONE),
        ("sqrt.rn.f32 %f1, %f0;", ONE),
        ("rsqrt.approx.f32 %f1, %f0;", ONE),
        ("ex2.approx.f32 %f1, %f0;", 0x40000000),
        ("lg2.approx.f32 %f1, %f0;", 0),
        ("max.NaN.f32 %f1, %f0, %f0;", ONE),
        ("min.f32 %f1, %f0, %f0;", ONE),
        ("sub.f32 %f2, %f0, %f0; mul.f32 %f1, %f2, 0f7F800000;", NAN),
    ],
)
def test_arithmetic_makes_one_nan(body: str, of_one: int) -> None:
    assert run(body + READ) == [NAN, NAN, NAN, of_one]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("mov.f32 %f1, %f0;", LOADED),
        ("neg.f32 %f2, %f0; neg.f32 %f1, %f2;", LOADED),
        ("selp.f32 %f1, %f0, 0f00000000, %p0;", [*LOADED[:2], 0, 0]),
    ],
)
def test_what_moves_keeps_the_bits(body: str, expected: list[int]) -> None:
    assert run(body + READ) == expected


def test_only_lanes_that_compute_get_it() -> None:
    assert run(f"mov.f32 %f1, %f0; @%p0 add.f32 %f1, %f0, %f0; {READ}") == [NAN, NAN, *LOADED[2:]]


@pytest.mark.parametrize(
    "way",
    [
        "mov.u32 %r2, tile; mad.lo.u32 %r2, %r0, 4, %r2; st.shared.f32 [%r2], %f2;"
        " ld.shared.u32 %r3, [%r2];",
        "mov.b32 %r4, %f2; shfl.sync.idx.b32 %r3, %r4, %r0, 31, 15;",
        "mov.b64 %d3, {%f2, %f2}; mov.b64 {%r5, %r3}, %d3;",
    ],
)
def test_rounding_to_bfloat16_by_integers_loses_it(way: str) -> None:
    """A NaN becomes -0, which is what a GPU makes of it."""
    body = f"""add.f32 %f2, %f0, %f0; {way}
    bfe.u32 %r6, %r3, 16, 1; add.u32 %r6, %r6, 32767; add.u32 %r6, %r6, %r3;
    shr.u32 %r1, %r6, 16;"""
    assert run(body) == [0x8000, 0x8000, 0x8000, 0x4000]


def test_both_halves_of_a_nan() -> None:
    body = "add.f32 %f1, %f0, %f0; mov.b32 {%h0, %h1}, %f1; cvt.u32.u16 %r1, %h0;"
    assert run(body) == [0xFFFF, 0xFFFF, 0xFFFF, 0]


def test_a_product_of_matrices() -> None:
    zeros = ", ".join(["%f9"] * 4)
    body = f"""mov.f32 %f9, 0f00000000; mov.b32 %r9, 0; mov.b32 %r8, 0x7FC07FC0;
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{%f1, %f2, %f3, %f4}},
        {{%r8, %r8, %r8, %r8}}, {{%r9, %r9}}, {{{zeros}}}; {READ}"""
    out = np.zeros(32, np.uint32)
    Bench(parse(f"{HEAD}{body}{TAIL}")).launch("k", 1, 32, out, np.zeros(32, np.uint32))
    assert (out == NAN).all()


def test_a_register_that_may_be_unset() -> None:
    """A twin's NaN has the same bits: what is stored depends on nothing unset."""
    body = "@%p0 mov.f32 %f5, %f0; add.f32 %f6, %f0, %f5; selp.f32 %f1, %f6, %f0, %p0;"
    assert run(body + READ) == [NAN, NAN, *LOADED[2:]]
