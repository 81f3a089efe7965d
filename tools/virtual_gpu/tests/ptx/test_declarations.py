"""Variables and parameters: what ptxas 13.0 took and did not take, tried one by one."""

from __future__ import annotations

import pytest

from astra_vgpu.ptx.parser import PtxSyntaxError, parse

HEAD = ".version 9.0 .target sm_90 .address_size 64 "


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (".global .b8 x[3] = {300, -1};", "2cff00"),
        (".global .b8 x[] = {1, 2, 3};", "010203"),
        (".global .b8 x[2][2] = {{1}, {3, 4}};", "01000304"),
        (".global .b16 x[][2] = {{1, 2}, {3, 4}};", "0100020003000400"),
        (".global .u32 x = 1+2*3;", "07000000"),
        (".const .f32 x[2] = {1.0, 0d4000000000000000};", "0000803f00000040"),
        (".global .f64 x = 0f3F800000;", "000000000000f03f"),
        (".global .b32 x = 0f3F800000;", "0000803f"),
        (".global .u32 x[2] = {WARP_SZ};", "2000000000000000"),
    ],
)
def test_initial_values(text: str, data: str) -> None:
    assert parse(HEAD + text).globals["x"].initial == bytes.fromhex(data)


def test_addresses_as_initial_values() -> None:
    found = parse(HEAD + ".global .u32 y; .global .u64 x[2] = {0, generic(y)+4};").globals["x"]
    assert [(r.at, r.symbol, r.addend) for r in found.relocations] == [(8, "y", 4)]


@pytest.mark.parametrize(
    "text",
    [
        ".global .f32 x = 1;",
        ".global .u32 x = 0f3F800000;",
        ".global .f16 x = 0;",
        ".global .b8 x[2] = {1,2,3};",
        ".global .b8 x[2][2] = {1,2,3,4};",
        ".global .u32 x = {1};",
        ".global .u32 x[2] = 1;",
        ".global .u32 x[2] = {1,};",
        ".shared .u32 x = 1;",
        ".extern .global .u32 x = 4;",
        ".global .u64 x = x;",
        ".global .u64 x = y;",
        ".global .u32 y; .global .b8 x[8] = {y};",
        ".global .u32 y; .global .s64 x = y;",
        ".global .u32 x; .const .u32 x;",
        ".global .b8 x[];",
        ".global .b8 x[0];",
        ".shared .b8 x[];",
        ".extern .global .b8 x[];",
        ".global .b8 x[2][];",
        ".global .b8 x[2*4];",
        ".global .bf16 x;",
        ".global .pred x;",
        ".global .u128 x;",
        ".global .u32 .align 4 x;",
        ".global .align 3 .u32 x;",
        ".global .attribute(.foo) .u32 x;",
        ".global .u32 x.y;",
        ".global .u32 _;",
        ".global .u32 .u32 x;",
        ".const .b8 x[65537];",
        ".global .b8 x[4294967297];",
    ],
)
def test_what_is_no_variable(text: str) -> None:
    with pytest.raises(PtxSyntaxError):
        parse(HEAD + text)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (".param .u64 a, .param .f16 b", True),
        (".param .align 8 .b8 a[32764]", True),
        (".param .u64 .ptr .global .align 16 a", True),
        (".param .b128 a", True),
        (".param .align 8 .b8 a[32765]", False),
        (".param .u64 a, .param .u64 a", False),
        (".reg .u64 a", False),
        (".param .u64 a[]", False),
        (".param .b8 a[0]", False),
        (".param .f16x2 a", False),
        (".param .u8 a[2][3]", False),
        (".param .u32 a = 3", False),
        (".param .u64 $", False),
        (".param .u64 a,", False),
        (".shared .u64 a", False),
    ],
)
def test_parameters_of_kernels(text: str, right: bool) -> None:
    if right:
        assert parse(f"{HEAD}.entry k({text}) {{ ret; }}").kernels["k"].params
    else:
        with pytest.raises(PtxSyntaxError):
            parse(f"{HEAD}.entry k({text}) {{ ret; }}")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (".func f(); .func f() { ret; }", True),
        (".func f(.param .b8 a[]) { ret; }", True),
        (".func (.reg .b32 r, .reg .b32 s) f(.reg .b32 a) { ret; }", True),
        (".extern .func f();", True),
        (".func f { ret; }", True),
        (".func f();", False),
        (".func f() { ret; } .func f() { ret; }", False),
        (".func f() { ret; } .func f();", False),
        (".extern .func f() { ret; }", False),
        (".func f(.param .b32 a); .func f() { ret; }", False),
        (".func f(.param .b32 a); .func f(.param .b64 a) { ret; }", False),
        (".func f(.param .b8 a[], .param .b8 b[]) { ret; }", False),
        (".func (.param .b32 a) f(.param .b32 a) { ret; }", False),
        (".func (.param .b32 a, .param .b32 b) f() { ret; }", False),
        (".func (.param .b8 r[]) f() { ret; }", False),
        (".func k() { ret; } .entry k() { ret; }", False),
        (".entry k() { ret; } .entry k() { ret; }", False),
        (".entry k();", False),
        (".global .u32 k; .entry k() { ret; }", False),
        (".alias a, b;", False),
    ],
)
def test_functions_and_their_names(text: str, right: bool) -> None:
    if right:
        assert parse(HEAD + text).functions["f"]
    else:
        with pytest.raises(PtxSyntaxError):
            parse(HEAD + text)
