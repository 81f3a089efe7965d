"""Classes of instructions, and how often a block waits for memory."""

from __future__ import annotations

import pytest

from astra_vgpu.lowering.control_flow import BasicBlock
from astra_vgpu.numpy_engine.block_costs import block_costs, class_of
from astra_vgpu.ptx.parser import parse
from astra_vgpu.ptx.syntax import Instruction


def instructions(body: str) -> list[Instruction]:
    text = (
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{"
        ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b16 %h<9>; .reg .pred %p<9>;" + body + "}"
    )
    return [s for s in parse(text).kernels["k"].body if isinstance(s, Instruction)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ld.global.nc.L1::no_allocate.v4.u32 {%r0, %r1, %r2, %r3}, [%rd0]", "global"),
        ("ld.b32 %r0, [%rd0]", "global"),
        ("st.shared.b32 [%r0], %r1", "shared"),
        ("ld.param.u64 %rd0, [%rd1]", "move"),
        ("fma.rn.f32 %r0, %r1, %r2, %r3", "float"),
        ("fma.rn.bf16x2 %r0, %r1, %r2, %r3", "half"),
        ("ex2.approx.ftz.f32 %r0, %r1", "special"),
        ("div.full.f32 %r0, %r1, %r2", "special"),
        ("div.s32 %r0, %r1, %r2", "int"),
        ("cvt.rn.bf16.f32 %h0, %r1", "convert"),
        ("cvt.s64.s32 %rd0, %r1", "int"),
        ("cvt.f32.bf16 %r0, %h0", "half"),
        ("cvt.rni.s32.f32 %r0, %r1", "special"),
        ("cvt.rn.f32.s32 %r0, %r1", "convert"),
        ("cvt.rni.f32.f32 %r0, %r1", "special"),
        ("mov.b32 %r0, {%h0, %h1}", "move"),
        ("shfl.sync.bfly.b32 %r0, %r1, 1, 31, -1", "shuffle"),
        ("atom.shared.add.u32 %r0, [%r1], 1", "shared"),
        ("atom.global.add.u32 %r0, [%rd1], 1", "atomic"),
        ("bar.warp.sync -1", "barrier"),
        ("vote.sync.ballot.b32 %r0, %p1, -1", "int"),
        ("popc.b32 %r0, %r1", "int"),
        ("setp.lt.f32 %r0, %r1, %r2", "float"),
        ("membar.gl", "control"),
    ],
)
def test_classes(text: str, expected: str) -> None:
    (instruction,) = instructions(text + ";")
    assert class_of(instruction) == expected


WMMA = "wmma.load.a.sync.aligned.row.m16n16k16.{}.bf16 {{%r0, %r1, %r2, %r3}}, [{}], %r8;"


def test_fragments_from_global_memory_are_several_loads() -> None:
    """Four LDG, of which none waits for another."""
    (mix,) = block_costs([BasicBlock(instructions(WMMA.format("global", "%rd0")))])
    assert (mix.loads, mix.rounds, mix.slots) == (4, 1, 50)
    (mix,) = block_costs([BasicBlock(instructions(WMMA.format("shared", "%r7")))])
    assert (mix.loads, mix.rounds, mix.slots) == (0, 0, 20)


@pytest.mark.parametrize(
    ("body", "rounds"),
    [
        ("ld.global.u32 %r0, [%rd0]; ld.global.u32 %r1, [%rd1]; add.u32 %r2, %r0, %r1;", 1),
        ("ld.global.u64 %rd1, [%rd0]; ld.global.u32 %r1, [%rd1];", 2),
        ("ld.global.u32 %r0, [%rd0]; add.u32 %r2, %r0, 1; ld.global.u32 %r1, [%rd1];", 1),
        ("ld.global.u32 %r0, [%rd0]; st.global.u32 [%rd2], %r0; ld.global.u32 %r1, [%rd1];", 2),
        ("ld.global.u32 %r0, [%rd0]; st.global.u32 [%rd2], %r0; ld.global.nc.u32 %r1, [%rd1];", 1),
        ("ld.shared.u32 %r0, [%r1]; ld.local.u32 %r2, [%rd0];", 0),
        ("ld.global.u64 %rd1, [%rd0];" + WMMA.format("global", "%rd1"), 2),
        (WMMA.format("shared", "%r8"), 0),
    ],
)
def test_rounds_of_dependent_loads(body: str, rounds: int) -> None:
    (mix,) = block_costs([BasicBlock(instructions(body))])
    assert mix.rounds == rounds and mix.head


VECTOR = "ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%rd0+{}];"
WORD = "ld.global.u32 %r{}, [%rd0+{}];"
WORK = "fma.rn.f32 %r7, %r0, %r0, %r0;"


@pytest.mark.parametrize(
    ("body", "rounds"),
    [
        ("".join(VECTOR.format(16 * k) for k in range(5)), 1),
        ("".join(VECTOR.format(16 * k) for k in range(6)), 2),
        ("".join(VECTOR.format(16 * k) for k in range(11)), 3),
        ("ld.global.v2.u16 {%h0, %h1}, [%rd0];" * 20, 1),
        (WORD.format(0, 0) + 90 * WORK + WORD.format(1, 4), 1),
        (WORD.format(0, 0) + 110 * WORK + WORD.format(1, 4), 2),
        (WORD.format(0, 0) + "div.rn.f32 %r7, %r0, %r0;" + WORD.format(1, 4), 2),
        (WORD.format(0, 0) + "div.rn.f32 %r7, %r6, %r6;" + WORD.format(1, 4), 1),
    ],
)
def test_how_many_loads_wait_together(body: str, rounds: int) -> None:
    """So many words, over so many instructions, and none past a branch to a slow path."""
    (mix,) = block_costs([BasicBlock(instructions(body))])
    assert mix.rounds == rounds
