"""Which arguments a kernel may store and load through, as its PTX tells."""

from __future__ import annotations

import pytest

from astra_vgpu.lowering.pointer_reach import ANYWHERE, Reach
from astra_vgpu.numpy_engine import translate
from astra_vgpu.ptx.parser import parse

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n.global .align 8 .b8 room[64];\n"
    ".shared .align 16 .b8 tile[64];\n"
    ".visible .entry kernel(.param .u64 a, .param .u64 b, .param .align 8 .b8 both[16])\n"
    "{ .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<9>;"
    " ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; mov.u32 %r0, %tid.x;\n"
)
A, B, BOTH = 0, 8, 16


def reach(body: str) -> Reach:
    return translate(parse(f"{HEAD}{body} ret; }}"), "kernel").reach


@pytest.mark.parametrize(
    ("body", "stored", "loaded"),
    [
        ("", set(), set()),
        ("ld.global.u32 %r1, [%d1]; st.global.u32 [%d0], %r1;", {A}, {B}),
        (
            "cvta.to.global.u64 %d2, %d0; mad.wide.u32 %d3, %r0, 4, %d2; st.global.u32 [%d3+8], 1;",
            {A},
            set(),
        ),
        # Either of two, and one that goes round in a loop.
        ("setp.eq.u32 %p0, %r0, 0; selp.b64 %d2, %d0, %d1, %p0; st.u32 [%d2], 1;", {A, B}, set()),
        (
            "mov.u64 %d2, %d0; again: st.global.u32 [%d2], 1; add.u64 %d2, %d2, 128;"
            " setp.ne.u64 %p0, %d2, %d1; @%p0 bra again;",
            {A},
            set(),
        ),
        # An index out of memory leads nowhere else; an address may lead anywhere.
        (
            "ld.global.u32 %r1, [%d1]; mad.wide.u32 %d2, %r1, 4, %d0; st.global.u32 [%d2], 1;",
            {A},
            {B},
        ),
        ("ld.global.u64 %d2, [%d1]; st.global.u32 [%d2], 1;", {ANYWHERE}, {B}),
        # Members of a structure, vectors of pointers, variables.
        ("ld.param.u64 %d2, [both+8]; st.global.u32 [%d2], 1;", {BOTH + 8}, set()),
        (
            "ld.param.v2.u64 {%d2, %d3}, [both]; ld.global.u32 %r1, [%d2];"
            " st.global.u32 [%d3], %r1;",
            {BOTH, BOTH + 8},
            {BOTH, BOTH + 8},
        ),
        (
            "st.global.u32 [room], 1; mov.u64 %d2, room; ld.global.u32 %r1, [%d2];",
            {"room"},
            {"room"},
        ),
        # Shared memory is none of it; atomics both read and write.
        ("st.shared.u32 [tile], 1; ld.shared.u32 %r1, [tile];", set(), set()),
        ("red.global.add.u32 [%d0], 1; atom.global.add.u32 %r1, [%d1], 1;", {A, B}, {B}),
        ("cp.async.ca.shared.global [tile], [%d1], 4;", set(), {B}),
    ],
)
def test_where_addresses_lead(body: str, stored: set[object], loaded: set[object]) -> None:
    found = reach(body)
    assert (found.stored, found.loaded) == (stored, loaded)


def test_the_narrowest_plain_access_and_the_sites() -> None:
    found = reach(
        "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1];\nst.global.u16 [%d0], %r1;\n"
        "atom.global.add.u32 %r1, [%d0], 1;"
    )
    assert found.granule == 2 and [site.family for site in found.sites] == ["ld", "st"]
    assert [found.number(site) for site in found.sites] == [1, 2] and found.synchronises
    assert reach("ld.global.u8 %r1, [%d1];").granule == 0
