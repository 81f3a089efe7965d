from __future__ import annotations

import pytest
from tests.numpy_engine.test_block_costs import instructions

from astra_vgpu.lowering.control_flow import BasicBlock
from astra_vgpu.numpy_engine.block_costs import class_of
from astra_vgpu.numpy_engine.instruction_costs import (
    CYCLES,
    RegionBlock,
    alu_tenths,
    chain,
    has_slow_path,
    slots,
    special_tenths,
    tensor_tenths,
)


def cost(text: str, *, loops: bool = False) -> tuple[int, int]:
    """(slots in tenths, cycles of the longest chain)."""
    block = BasicBlock(body=list(instructions(text)))
    body = [(i, class_of(i)) for i in block.body]
    return slots(body, block, loops=loops), chain(
        [RegionBlock(tuple(body), conditional=False)], block
    )


def test_tensor_cores_work_on_rows_of_32_bytes() -> None:
    """Measured: m16n8k16 f16, k8 tf32 and k32 int8 take the same time, k8 f16 seven tenths."""
    forms = {
        "m16n8k16.row.col.f32.f16.f16.f32": 10,
        "m16n8k8.row.col.f32.f16.f16.f32": 7,
        "m16n8k8.row.col.f32.tf32.tf32.f32": 10,
        "m16n8k32.row.col.s32.s8.s8.s32": 10,
    }
    for form, tenths in forms.items():
        (mma,) = instructions(f"mma.sync.aligned.{form} {{%r0}}, {{%r1}}, {{%r2}}, {{%r3}};")
        assert tensor_tenths(mma) == tenths
    wmma = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%r0}, {%r1}, {%r2}, {%r3};"
    assert tensor_tenths(instructions(wmma)[0]) == 20
    assert tensor_tenths(instructions("add.u32 %r1, %r0, %r0;")[0]) == 0


def test_a_quotient_by_a_known_divisor_is_cheaper() -> None:
    twice = "div.u32 %r1, %r0, %r3; div.u32 %r2, %r0, %r3;"
    apart = "div.u32 %r1, %r0, %r3; div.u32 %r2, %r0, %r4;"
    once = "rem.u32 %r1, %r1, %r3;"
    assert cost(twice)[0] < cost(apart)[0]
    assert cost(once, loops=True)[0] < cost(once)[0]
    changed = once + "add.u32 %r3, %r3, 1;"
    assert cost(changed, loops=True)[0] == cost(changed)[0]
    euclid = "rem.u32 %r1, %r2, %r3; mov.u32 %r2, %r3; mov.u32 %r3, %r1;"
    assert cost(euclid, loops=True)[0] == cost(euclid)[0]


def test_quotients_and_counts_of_bits_take_the_unit_of_special_functions() -> None:
    def special(text: str) -> int:
        return special_tenths([(i, class_of(i)) for i in instructions(text)])

    assert special("ex2.approx.ftz.f32 %r1, %r0; clz.b32 %r1, %r0; popc.b32 %r1, %r0;") == 30
    assert special("rem.u32 %r1, %r0, %r2;") == 30
    assert special("rem.u32 %r1, %r0, %r2; div.u32 %r3, %r0, %r2;") == 30
    assert special("div.rn.f32 %r1, %r0, %r0; div.full.f32 %r1, %r0, %r0;") == 30
    assert special("add.u32 %r1, %r0, %r0; cvt.rn.f32.s32 %r1, %r0;") == 0


def test_what_is_rounded_right_branches_to_a_slow_path() -> None:
    slow = "div.rn.f32 %r1, %r0, %r0; sqrt.rn.f32 %r1, %r0; div.s64 %rd1, %rd0, %rd2;"
    assert all(map(has_slow_path, instructions(slow)))
    quick = "div.full.f32 %r1, %r0, %r0; sqrt.approx.f32 %r1, %r0; div.s32 %r1, %r0, %r2;"
    assert not any(map(has_slow_path, instructions(quick)))


def test_what_is_far_apart_does_not_run_together() -> None:
    """Eight instructions on; where two chains are side by side, they do."""
    first = "".join(f"shfl.sync.bfly.b32 %r{k + 1}, %r{k}, 1, 31, -1;" for k in range(8))
    other = "".join(f"shfl.sync.bfly.b32 %h{k + 1}, %h{k}, 1, 31, -1;" for k in range(8))
    together = "".join(
        f"shfl.sync.bfly.b32 %r{k + 1}, %r{k}, 1, 31, -1;"
        f"shfl.sync.bfly.b32 %h{k + 1}, %h{k}, 1, 31, -1;"
        for k in range(8)
    )
    assert cost(together)[1] == cost(first)[1] < cost(first + other)[1]


def test_logic_has_a_unit_of_its_own() -> None:
    def alu(text: str) -> int:
        return alu_tenths([(i, class_of(i)) for i in instructions(text)])

    assert alu("fma.rn.f32 %r1, %r0, %r0, %r0; mul.lo.u32 %r1, %r0, %r0;") == 0
    assert alu("xor.b32 %r1, %r0, %r0;") > alu("add.u32 %r1, %r0, %r0;") > 0
    assert alu("setp.lt.f32 %r1, %r0, %r0;") == 10


def test_a_chain_takes_longer_than_the_same_work_side_by_side() -> None:
    chain = "fma.rn.f32 %r1, %r0, %r0, %r0; fma.rn.f32 %r2, %r1, %r1, %r1;"
    apart = "fma.rn.f32 %r1, %r0, %r0, %r0; fma.rn.f32 %r2, %r0, %r0, %r0;"
    assert cost(chain)[1] - cost(apart)[1] == CYCLES["float"]
    assert cost(chain)[0] == cost(apart)[0]


@pytest.mark.parametrize(
    ("cheap", "dear"),
    [
        ("mov.b32 %r1, %r0;", "add.s32 %r1, %r0, %r0;"),
        ("add.s32 %r1, %r0, %r0;", "add.s64 %rd1, %rd0, %rd0;"),
        ("mul.f32 %r1, %r0, %r0;", "div.rn.f32 %r1, %r0, %r0;"),
        ("div.full.f32 %r1, %r0, %r0;", "div.rn.f32 %r1, %r0, %r0;"),
        ("div.u32 %r1, %r0, %r0;", "div.u64 %rd1, %rd0, %rd0;"),
        ("ex2.approx.ftz.f32 %r1, %r0;", "ex2.approx.f32 %r1, %r0;"),
    ],
)
def test_what_expands_takes_more_slots(cheap: str, dear: str) -> None:
    assert cost(cheap)[0] < cost(dear)[0]
