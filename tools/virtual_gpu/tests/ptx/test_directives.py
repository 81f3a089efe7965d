"""Directives before a body: what ptxas 13.0 took and did not take."""

from __future__ import annotations

import pytest

from astra_vgpu.ptx.parser import PtxSyntaxError, parse

HEAD = ".version 9.0 .target sm_90 .address_size 64 "


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (".maxntid 512", {"maxntid": (512,)}),
        (".maxntid 512, 2, 1 .minnctapersm 4", {"maxntid": (512, 2, 1), "minnctapersm": (4,)}),
        (".maxntid 0x10 .maxnreg 32", {"maxntid": (16,), "maxnreg": (32,)}),
        (".reqntid 32", {"reqntid": (32,)}),
        ('.pragma "a", "b";', {}),
    ],
)
def test_directives(text: str, numbers: dict[str, tuple[int, ...]]) -> None:
    assert parse(f"{HEAD}.entry k() {text} {{ ret; }}").kernels["k"].directives == numbers


@pytest.mark.parametrize(
    "text",
    [
        ".maxntid",
        ".maxntid 512,",
        ".maxntid 512 1",
        ".maxntid 1,1,1,1",
        ".maxntid 0",
        ".maxntid 4294967295",
        ".maxntid 4294967296",
        ".maxntid 32 .reqntid 32",
        ".minnctapersm 1,2",
        ".maxnreg 0",
        ".noreturn",
        '.pragma "a"',
        ".pragma a;",
        ".foo",
        '.maxntid 32 "a"',
        ".blocksareclusters",
        ".maxntid 2*4",
    ],
)
def test_what_is_no_directive(text: str) -> None:
    with pytest.raises(PtxSyntaxError, match="line 1"):
        parse(f"{HEAD}.entry k() {text} {{ ret; }}")


def test_a_function_has_its_own() -> None:
    assert parse(HEAD + ".func f() .noreturn { trap; }").functions["f"].directives == {
        "noreturn": ()
    }
    with pytest.raises(PtxSyntaxError):
        parse(HEAD + ".func f() .maxntid 32 { ret; }")


@pytest.mark.parametrize("text", [".visible .weak .global .u32 x;", '.visible .pragma "a";'])
def test_linkage(text: str) -> None:
    assert parse(f"{HEAD}.visible .global .u32 x; .weak .func f() {{ ret; }}").globals
    with pytest.raises(PtxSyntaxError):
        parse(HEAD + text)
