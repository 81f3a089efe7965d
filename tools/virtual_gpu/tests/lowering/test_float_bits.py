"""Which registers' bits are read."""

from __future__ import annotations

import pytest
from tests.lowering.test_float_stores import HEAD

from astra_vgpu.lowering.control_flow import control_flow
from astra_vgpu.lowering.float_bits import registers_read_as_bits
from astra_vgpu.lowering.inline import inline
from astra_vgpu.ptx.parser import parse


@pytest.mark.parametrize(
    ("after", "is_read"),
    [
        ("add.f32 %r2, %r1, %r1; setp.gt.f32 %p1, %r1, %r2; cvt.rn.bf16.f32 %h0, %r1;", False),
        ("shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; add.f32 %r3, %r2, %r1;", False),
        ("st.global.f32 [%d0], %r1; st.global.v2.b32 [%d0], {%r1, %r1};", False),
        ("st.shared.f32 [tile], %r1; ld.shared.b32 %r2, [tile]; add.f32 %r2, %r2, %r2;", False),
        ("st.shared.f32 [tile], %r1; ld.global.b32 %r2, [%d0]; add.u32 %r2, %r2, 1;", False),
        ("add.u32 %r2, %r1, 32767;", True),
        ("mov.b32 %r2, %r1; selp.b32 %r3, %r2, 0, %p0; shr.u32 %r4, %r3, 16;", True),
        ("mov.b32 {%h0, %h1}, %r1;", True),
        ("mov.b64 %d1, {%r1, %r1}; shr.u64 %d2, %d1, 48;", True),
        ("st.global.b16 [%d0], %r1;", True),
        ("st.global.u32 [%d0], %r1;", True),
        ("neg.f32 %r2, %r1; and.b32 %r3, %r2, 2147483647;", True),
        ("st.shared.f32 [tile], %r1; ld.b32 %r2, [%d0]; add.u32 %r2, %r2, 1;", True),
        ("atom.shared.max.s32 %r2, [tile], %r1;", True),
        ("cvt.f64.f32 %d1, %r1; and.b64 %d2, %d1, 1;", True),
    ],
)
def test_by_what_reads_them(after: str, is_read: bool) -> None:
    module = parse(f"{HEAD}mul.f32 %r1, %r5, %r6; {after} ret; }}")
    blocks = control_flow(inline(module, module.kernels["k"]), "k")
    assert ("%r1" in registers_read_as_bits(blocks)) == is_read
