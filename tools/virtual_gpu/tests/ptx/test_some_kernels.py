"""A PTX text cut down to some of its kernels parses to the same kernels, line by line."""

from __future__ import annotations

from astra_vgpu.ptx.parser import parse
from astra_vgpu.ptx.some_kernels import with_kernels

TEXT = """.version 9.0
.target sm_90
.address_size 64
.global .align 4 .u32 seen = 0;
// .entry commented() {
.func (.reg .b32 %out) help() { mov.u32 %out, 1; ret; }
\t// .globl\tone
.visible .entry one(
\t.param .u64 a
)
.maxntid 64, 1, 1
{
\t.reg .b32 %r<3>;
\t{ // } a brace in a comment
\tmov.u32 %r1, 1; /* } */
\t}
\t.pragma "nounroll";
\tret;
}
.entry two() { .reg .b32 %r<3>; mov.u32 %r1, 2; ret; }
.weak .entry three() { ret; }
"""


def test_the_wanted_ones_are_what_they_were() -> None:
    whole, some = parse(TEXT), parse(with_kernels(TEXT, {"two"}))
    assert set(whole.kernels) == {"one", "two", "three"} and set(some.kernels) == {"two"}
    assert some.kernels["two"].body == whole.kernels["two"].body
    assert list(some.functions) == list(whole.functions) and list(some.globals) == ["seen"]


def test_all_or_none() -> None:
    assert with_kernels(TEXT, {"one", "two", "three"}) == TEXT
    nothing = with_kernels(TEXT, set())
    assert not parse(nothing).kernels and nothing.count("\n") == TEXT.count("\n")
