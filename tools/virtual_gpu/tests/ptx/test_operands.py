"""Operands against types: what ptxas 13.0 took and did not take, tried one by one."""

from __future__ import annotations

import pytest

from astra_vgpu.ptx.operands import mistake
from astra_vgpu.ptx.parser import parse
from astra_vgpu.ptx.syntax import Instruction

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{ .reg .pred %p<3>;"
    " .reg .b16 %rs<3>; .reg .u16 %us<3>; .reg .b32 %r<3>; .reg .u32 %u<3>; .reg .f32 %f<3>;"
    " .reg .b64 %rd<3>; .reg .f64 %fd<3>; "
)


def wrong(text: str) -> str:
    kernel = parse(f"{HEAD}{text} ret; }}").kernels["k"]
    found = kernel.body[0]
    assert isinstance(found, Instruction)
    return mistake(found)


@pytest.mark.parametrize(
    "text",
    [
        "mov.b32 %r1, 0f3F800000;",
        "and.b32 %r1, %r1, 0f3F800000;",
        "st.global.u32 [%rd1], 5;",
        "st.global.b32 [%rd1], %f1;",
        "ld.global.f32 %r1, [%rd1];",
        "ld.global.u32 %rd1, [%rd1];",
        "add.f32 %r1, %r1, %r1;",
        "add.s32 %u1, %u1, %u1;",
        "cvt.rn.f32.u32 %f1, %rd1;",
        "cvt.u16.u32 %r1, %r1;",
        "ld.shared.u32 %r1, [%rd1];",
        "mov.u16 %rs1, %tid.x;",
        "shl.b64 %rd1, %rd1, %r1;",
        "add.f16 %rs1, %rs1, %rs1;",
        "mov.b64 %rd1, {%r1, %f1};",
        "selp.b32 %f1, %r1, %r1, %p1;",
        "mov.pred %p1, 1;",
        "shfl.sync.bfly.b32 %f1, %f1, 1, 31, -1;",
        "ld.global.v2.u32 {%r1, %f1}, [%rd1];",
        "add.f64 %fd1, %fd1, 0f3F800000;",
        "vote.sync.ballot.b32 %r1, !%p1, -1;",
        "mul.wide.u32 %rd1, %r1, 5;",
        "bar.sync %r1;",
        "st.local.u32 [16], %r1;",
        "mov.u64 %rd1, %clock64;",
        "frobnicate.f32 %rd1, %p1;",
    ],
)
def test_what_ptxas_takes(text: str) -> None:
    assert wrong(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "add.s32 %r1, %r1, 0f3F800000;",
        "add.f32 %f1, %f1, 1;",
        "mov.f32 %f1, 1;",
        "st.global.f32 [%rd1], 5;",
        "st.global.u32 [%rd1], %f1;",
        "ld.global.u32 %f1, [%rd1];",
        "add.u32 %f1, %f1, %f1;",
        "add.f32 %u1, %u1, %u1;",
        "cvt.u32.u64 %f1, %rd1;",
        "cvt.f32.u32 %f1, %f1;",
        "ld.shared.u32 %r1, [%f1];",
        "mov.u64 %rd1, %tid.x;",
        "shl.b32 %r1, %r1, %rd1;",
        "add.f16 %us1, %us1, %us1;",
        "mov.u32 %f1, %r1;",
        "selp.u32 %f1, %r1, %r1, %p1;",
        "popc.b32 %rd1, %r1;",
        "mad.wide.u32 %rd1, %r1, %r1, %r1;",
        "shfl.sync.bfly.b32 %r1|%p1, %r1, %rd1, 31, -1;",
        "atom.global.add.u32 %f1, [%rd1], %r1;",
        "add.s32 %r1, %tid.x, 1;",
        "ld.global.u32 %r1, [16];",
        "ld.global.u32 _, [%rd1];",
        "add.u32 %r1, %r1, %rs1;",
        "cvt.u64.u32 %r1, %r1;",
        "add.s32 %r1, %r1, %p1;",
        "ld.global.u32 %r1, [%r1];",
        "add.s32 %r1, %r1;",
        "bar.sync %f1;",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f1, "
        "%f1, %f1}, {%r1, %r1}, %r1, {};",
        "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%f1, "
        "%f1, %f1, %f1}, {%f1, %f1}, {%r1}, "
        "{%f1, %f1, %f1, %f1};",
    ],
)
def test_what_ptxas_does_not_take(text: str) -> None:
    assert wrong(text)
