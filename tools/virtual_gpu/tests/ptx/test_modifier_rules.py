"""Modifiers that go together and that do not: tried on ptxas 13.0, each by itself."""

from __future__ import annotations

import pytest

from astra_vgpu.ptx.modifier_rules import misuse
from astra_vgpu.ptx.syntax import Instruction

RIGHT = """cvt.rn.f32.s32 cvt.rzi.s32.f32 cvt.sat.u8.s32 cvt.rni.f32.f32 cvt.rn.bf16.f32
 cvt.f32.bf16 cvt.rn.relu.f16.f32 cvt.rn.ftz.f32.s32 cvt.rna.tf32.f32 cvt.u64.u32
 setp.lo.u32 setp.eq.b32
 setp.ltu.f32 set.eq.u32.f16x2 set.eq.f16x2.f16x2 ld.global.nc.f32 ld.relaxed.gpu.global.u32
 ld.volatile.shared.u32 st.global.cs.f32 st.release.cta.b32 atom.global.add.u32
 atom.global.exch.b32
 atom.global.add.noftz.f16x2 redux.sync.add.s32 redux.sync.xor.b32 fma.rn.f32 add.sat.f32
 div.full.f32 rcp.approx.ftz.f64 ex2.approx.ftz.bf16 mul.wide.u32 shl.b32 mov.f32 bar.sync
 membar.gl wmma.load.a.sync.aligned.row.m16n16k16.f16 fence.acq_rel.gpu frobnicate.x""".split()
WRONG = """cvt.f32.s32 cvt.rn.s32.f32 cvt.sat.u64.u32 cvt.rn.u32.u64 cvt.rni.rn.f32.f32 cvt.bf16.f32
 cvt.ftz.f64.s64 cvt.relu.f32.f32 cvt.rna.relu.tf32.f32 setp.lo.s32 setp.lt.b32 setp.num.u32
 set.eq.f32.f16x2 ld.nc.f32 ld.relaxed.global.u32 ld.gpu.u32 ld.volatile.param.u32 st.nc.f32
 ld.cs.cg.f32 st.shared.L1::no_allocate.f32 atom.global.add.b32 atom.global.exch.u32
 atom.global.inc.u64 atom.add.gpu.cta.u32 redux.sync.add.b32 fma.f32 fma.rn.relu.sat.f16 div.f32
 div.rn.sat.f32 min.rn.f16 add.b32 shl.u32 mul.wide.u64 mul.bf16.sat neg.ftz.f64 ex2.approx.bf16
 tanh.approx.ftz.f32 mov.f16 bar.sync.aligned membar.gpu add sqrt.approx.f64
 wmma.load.d.sync.aligned.row.m16n16k16.f32 fence.sc.release.gpu mad.wide.cc.u32""".split()


@pytest.mark.parametrize("opcode", RIGHT)
def test_what_goes_together(opcode: str) -> None:
    assert misuse(Instruction(opcode, (), None, 1)) == ""


@pytest.mark.parametrize("opcode", [o.replace("mul.bf16.sat", "mul.sat.bf16") for o in WRONG])
def test_what_does_not(opcode: str) -> None:
    assert misuse(Instruction(opcode, (), None, 1))
