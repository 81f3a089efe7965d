"""Which stores are of floats that the kernel computed."""

from __future__ import annotations

import pytest

from astra_vgpu.lowering.control_flow import control_flow
from astra_vgpu.lowering.float_stores import float_stores
from astra_vgpu.lowering.inline import inline
from astra_vgpu.ptx.parser import parse

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 tile[64];\n"
    ".visible .entry k()\n{ .reg .pred %p<3>; .reg .b16 %h<3>; .reg .b32 %r<9>;"
    " .reg .b64 %d<3>; mov.u32 %r0, %tid.x; setp.gt.u32 %p0, %r0, 3;\n"
)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("st.shared.f32 [tile], %r1;", ["f32"]),
        ("add.f32 %r1, %r2, %r3; st.shared.b32 [tile], %r1;", ["f32"]),
        ("add.f32 %r1, %r2, %r3; st.shared.v2.b32 [tile], {%r1, %r1};", ["f32"]),
        ("add.f32 %r1, %r2, %r3; st.shared.v2.b32 [tile], {%r1, %r0};", []),
        ("ld.shared.b32 %r1, [tile+8]; add.f32 %r1, %r1, %r1; st.shared.u32 [tile], %r1;", ["f32"]),
        ("ld.shared.b32 %r1, [tile+8]; st.shared.b32 [tile], %r1;", []),
        ("cvt.rn.f16.f32 %h0, %r1; mov.b32 %r2, {%h0, %h0}; st.shared.b32 [tile], %r2;", ["f16"]),
        ("fma.rn.bf16x2 %r1, %r2, %r2, %r3; st.shared.b32 [tile], %r1;", ["bf16"]),
        ("cvt.rzi.s32.f32 %r1, %r2; st.shared.b32 [tile], %r1;", []),
        ("cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2; st.shared.b16 [tile], %h0;", []),
        ("cvt.rn.f16x2.e5m2x2 %r1, %h0; st.shared.b32 [tile], %r1;", ["f16"]),
        ("mul.f64 %d0, %d1, %d1; selp.b64 %d2, %d0, 0, %p0; st.shared.b64 [tile], %d2;", ["f64"]),
        ("add.f32 %r1, %r2, %r3; @%p0 add.s32 %r1, %r2, %r3; st.shared.b32 [tile], %r1;", []),
        (
            "add.f32 %r1, %r2, %r3; shfl.sync.bfly.b32 %r4, %r1, 1, 31, -1;"
            " st.shared.b32 [tile], %r4;",
            ["f32"],
        ),
    ],
)
def test_by_how_the_value_is_made(body: str, found: list[str]) -> None:
    module = parse(f"{HEAD}{body} ret; }}")
    blocks = control_flow(inline(module, module.kernels["k"]), "k")
    assert list(float_stores(blocks).values()) == found
