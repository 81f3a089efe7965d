"""Numbers of PTX snippets, as nvcc writes them, led back to what they were computed from."""

from __future__ import annotations

import pytest

from astra_chat.tools.check.ptx_numbers import PtxNumber, ptx_numbers

HEAD = ".visible .entry f(\n)\n{\nld.param.u32 %r1, [f_param_0];\n"
LOADED = HEAD + "ld.global.f32 %f1, [%rd1];\nld.global.u16 %rs1, [%rd1];\n"


def numbers(text: str) -> list[PtxNumber]:
    return list(ptx_numbers(text + "}\n"))


def plain(text: str) -> set[float]:
    return {one.target.value for one in numbers(text) if not one.target.modulus}


def rests(text: str) -> set[tuple[float, int]]:
    found = (one.target for one in numbers(text))
    return {(target.value, target.modulus) for target in found if target.modulus}


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        ("setp.eq.s32 %p1, %r1, 4711;", 4711),
        ("setp.lt.s32 %p1, %r1, 0x10;", 16),
        ("mov.u32 %r2, 4711;\nsetp.ne.s32 %p1, %r2, %r1;", 4711),
        ("add.s32 %r2, %r1, -5;\nsetp.lt.u32 %p1, %r2, 3;", 8),
        ("add.s32 %r2, %r1, -5;\nsetp.lt.u32 %p1, %r2, 3;", 5),
        ("shl.b32 %r2, %r1, 1;\nsetp.eq.s32 %p1, %r2, 8192;", 4096),
        ("mul.lo.s32 %r2, %r1, 3;\nsetp.eq.s32 %p1, %r2, 3003;", 1001),
        ("mad.lo.s32 %r2, %r1, 3, 2;\nsetp.eq.s32 %p1, %r2, 3005;", 1001),
        ("shr.u32 %r2, %r1, 7;\nsetp.eq.s32 %p1, %r2, 3;", 384),
        ("shr.u32 %r2, %r1, 7;\nsetp.eq.s32 %p1, %r2, 3;", 512),
        ("xor.b32 %r2, %r1, 4711;\nsetp.eq.s32 %p1, %r2, 0;", 4711),
        ("cvt.u64.u32 %rd2, %r1;\n{ setp.gt.u64 p, %rd2, 70000; }", 70000),
        ("mul.hi.u32 %r2, %r1, -1461174440;\nshr.u32 %r3, %r2, 6;\nsetp.eq.s32 %p1, %r3, 5;", 485),
        ("min.s32 %r2, %r1, 777;", 777),
        ("@%p2 bra $L;\n$L:\n@!%p1 setp.eq.s32 %p3, %r1, 91;", 91),
        ("brx.idx %r2, $T;", 0),
        ("sub.s32 %r2, %r1, 333;", 333),
    ],
)
def test_a_number_is_led_back_to_the_parameter(lines: str, number: float) -> None:
    assert number in plain(HEAD + lines)


@pytest.mark.parametrize(
    ("lines", "rest"),
    [
        ("and.b32 %r2, %r1, 1023;\nsetp.eq.s32 %p1, %r2, 77;", (77, 1024)),
        ("rem.u32 %r2, %r1, 97;\nsetp.eq.s32 %p1, %r2, 13;", (13, 97)),
        ("mul.lo.s32 %r3, %r2, 97;\nsub.s32 %r4, %r1, %r3;\nsetp.eq.s32 %p1, %r4, 13;", (13, 97)),
        ("and.b32 %r3, %r2, -128;\nsub.s32 %r4, %r1, %r3;\nsetp.eq.s32 %p1, %r4, 9;", (9, 128)),
        ("mad.lo.s32 %r4, %r2, -97, %r1;\nsetp.eq.s32 %p1, %r4, 13;", (13, 97)),
    ],
)
def test_a_rest_is_known_with_its_divisor(lines: str, rest: tuple[float, int]) -> None:
    assert rest in rests(HEAD + lines)


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        ("setp.eq.f32 %p1, %f1, 0f40490000;", 3.140625),
        ("mul.f32 %f2, %f1, 0f40000000;\nsetp.gt.f32 %p1, %f2, 0f40C00000;", 3.0),
        ("fma.rn.f32 %f2, %f1, 0f40000000, 0f3F800000;\nsetp.eq.f32 %p1, %f2, 0f40E00000;", 3.0),
        ("abs.f32 %f2, %f1;\nsetp.eq.f32 %p1, %f2, 0f40A00000;", -5.0),
        ("sqrt.approx.f32 %f2, %f1;\nsetp.eq.f32 %p1, %f2, 0f40000000;", 4.0),
        ("mov.f32 %f3, 0f40490000;\nsetp.neu.f32 %p1, %f1, %f3;", 3.140625),
        ("cvt.f64.f32 %fd1, %f1;\nsetp.eq.f64 %p1, %fd1, 0d4000000000000000;", 2.0),
        ("max.f32 %f2, %f1, 0fC2480000;", -50.0),
    ],
)
def test_a_float_is_led_back_to_the_value(lines: str, number: float) -> None:
    found = [one for one in numbers(LOADED + lines) if one.target.floating]
    assert number in {one.target.value for one in found}
    assert any("memory" in one.sources for one in found)


def test_bits_of_a_value_are_known() -> None:
    assert 0x4049 in plain(LOADED + "setp.eq.s16 %p1, %rs1, 16457;")
    masked = "and.b16 %rs2, %rs1, 32767;\nsetp.eq.s16 %p1, %rs2, 16457;"
    assert {0x4049, 0xC049} <= plain(LOADED + masked)


def test_a_constant_of_halves_is_their_bits() -> None:
    half = "mov.b16 %rs2, 0x4248;\n{ setp.eq.f16 p, %rs1, %rs2; }"
    (one, *_) = numbers(LOADED + half)
    assert one.target.value == 0x4248 and not one.target.floating
    pair = "mov.b32 %r3, 0x42484248;\nset.eq.f16x2.f16x2 %r4, %r2, %r3;"
    assert 0x42484248 in plain(LOADED + "ld.global.u32 %r2, [%rd1];\n" + pair)
    rounded = "cvt.rn.f16.f32 %rs2, 0f40490000;\nsetp.eq.f16 %p1, %rs1, %rs2;"
    assert 3.140625 in plain(LOADED + rounded)


def test_bounds_and_single_numbers_are_told_apart() -> None:
    (equal,) = numbers(HEAD + "setp.eq.s32 %p1, %r1, 4711;")
    (bound,) = numbers(HEAD + "setp.gt.s32 %p1, %r1, 4711;")
    assert not equal.ordered and bound.ordered
    assert equal.sources == {"parameter"}


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        ("shr.u32 %r2, %r1, 19;\nsetp.ne.s32 %p1, %r2, 0;", 524_287),
        ("and.b32 %r2, %r1, -524288;\nsetp.ne.s32 %p1, %r2, 0;", 524_287),
    ],
)
def test_a_comparison_of_high_bits_is_a_bound(lines: str, last: int) -> None:
    found = [one for one in numbers(HEAD + lines) if one.target.value in (last, last + 1)]
    assert found and all(one.ordered for one in found)


def test_what_only_threads_are_compared_with_is_told() -> None:
    found = numbers(HEAD + "mov.u32 %r2, %tid.x;\nsetp.eq.s32 %p1, %r2, 31;")
    assert found and all(one.sources == {"thread"} for one in found)


def test_small_tables_are_read() -> None:
    table = ".const .align 4 .b8 t[8] = {103, 18, 0, 0, 11, 0, 0, 0};\n"
    assert plain(table) == {4711, 11}
    assert plain(".global .align 4 .u32 t[2] = {4711, 11};\n") == {4711, 11}
    assert not plain(f".const .align 4 .u32 t[999] = {{{', '.join(map(str, range(999)))}}};\n")


def test_text_that_is_no_ptx_gives_nothing() -> None:
    assert not numbers("setp\n;;{{ }} @%p1\nsetp.eq.s32 %p1\nadd.s32 %r1\nmov.b32 {%r1\n")


def test_numbers_of_one_function_do_not_reach_the_next() -> None:
    second = ".visible .entry g(\n)\n{\nsetp.eq.s32 %p1, %r9, %r2;\n"
    assert not numbers(HEAD + "mov.u32 %r2, 4711;\n}\n" + second)
