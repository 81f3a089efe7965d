"""What operands have to be."""

from __future__ import annotations

import pytest

from astra_vgpu.ptx.signatures import forms, wants_type
from astra_vgpu.ptx.syntax import Instruction, Register

R = Register("%r1", "b32")


@pytest.mark.parametrize(
    ("opcode", "count", "expected"),
    [
        ("mad.wide.u16", 4, ["u32", "u16", "u16", "u32"]),
        ("add.u16x2", 3, ["=b32"] * 3),
        ("ld.global.v4.f32", 2, ["{f32", "@"]),
        ("st.shared.u8", 2, ["@", "~u8"]),
        ("cvt.rn.f16.f32", 2, ["~f16", "~f32"]),
        ("cvt.rn.bf16.f32", 2, ["bf16", "f32"]),
        ("bar.red.popc.u32", 3, ["u32", "u32", "pred"]),
        ("mbarrier.try_wait.parity.shared.b64", 4, ["pred", "@shared", "u32", "u32"]),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
            4,
            ["{f32", "{=b32", "{=b32", "{f32"],
        ),
        ("cp.async.bulk.global.shared::cta.bulk_group", 3, ["@global", "@shared", "u32"]),
        ("frobnicate.f32", 2, []),
    ],
)
def test_forms(opcode: str, count: int, expected: list[str]) -> None:
    assert forms(Instruction(opcode, (R,) * count, None, 1)) == expected


def test_what_needs_a_type() -> None:
    assert wants_type("div") and not wants_type("bar") and not wants_type("frobnicate")
