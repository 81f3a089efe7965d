"""Constants within and beyond what ptxas 13.0 takes."""

from __future__ import annotations

import pytest

from astra_vgpu.ptx.constant_ranges import out_of_range
from astra_vgpu.ptx.syntax import Immediate, Instruction, Operand, Register

R = Register("%r1", "b32")


@pytest.mark.parametrize(
    ("opcode", "right", "wrong"),
    [
        ("bfe.u32", (R, R, 255, 0), (R, R, 256, 0)),
        ("bfi.b32", (R, R, R, 0, 255), (R, R, R, -1, 4)),
        ("lop3.b32", (R, R, R, R, 255), (R, R, R, R, 256)),
        ("bar.sync", (15,), (16,)),
        ("bar.sync", (1, 64), (1, 33)),
        ("bar.arrive", (1, 64), (1, 0)),
        ("bar.red.popc.u32", (R, 0, R), (R, 16, R)),
        ("bar.warp.sync", (-1,), None),
        ("cp.async.ca.shared.global", (R, R, 8, 4), (R, R, 4, 8)),
        ("cp.async.cg.shared.global", (R, R, 16), (R, R, 8)),
        ("cp.async.bulk.global.shared::cta.bulk_group", (R, R, 128), (R, R, 120)),
        ("mbarrier.test_wait.parity.shared.b64", (R, R, 1), (R, R, 2)),
        ("mbarrier.arrive.shared.b64", (R, R, 1), (R, R, 0)),
        ("pmevent", (15,), (16,)),
        ("add.s32", (R, R, 1 << 40), None),
    ],
)
def test_ranges(opcode: str, right: tuple[object, ...], wrong: tuple[object, ...] | None) -> None:
    assert out_of_range(instruction(opcode, right)) == ""
    if wrong is not None:
        assert out_of_range(instruction(opcode, wrong))


def instruction(opcode: str, operands: tuple[object, ...]) -> Instruction:
    made: list[Operand] = [Immediate(o) if isinstance(o, int) else R for o in operands]
    return Instruction(opcode, tuple(made), None, 1)
