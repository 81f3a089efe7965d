from __future__ import annotations

import pytest
from tests.sass.code import instruction

from astra_vgpu.sass.functional_units import UNITS, latency, loads, unit_of


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("MUFU.EX2 R0, R1", "xu"),
        ("F2I.TRUNC.NTZ R0, R1", "xu"),
        ("LDG.E.128 R0, [R2]", "global_load"),
        ("SHFL.BFLY PT, R1, R0, 0x1, 0x1f", "shuffle"),
        ("LDS.64 R0, [R2]", "shared"),
        ("STL [R1], R0", "local"),
        ("RED.E.ADD.STRONG.GPU [R2], R0", "atomic"),
        ("IMAD.WIDE.U32 R2, R0, 0x4, R2", "imad_wide"),
        ("IMAD.HI R2, R0, R1, RZ", "imad_wide"),
        ("HMMA.16816.F32 R0, R4, R8, R0", "tensor"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier"),
        ("DFMA R0, R2, R4, R6", "f64"),
        ("FFMA.FTZ R0, R1, R2, R3", "fma"),
        ("IMAD.MOV.U32 R0, RZ, RZ, R1", "imad"),
        ("HFMA2.MMA R0, -RZ, RZ, 0, 0", "half"),
        ("S2R R0, SR_TID.X", "misc"),
        ("@P0 EXIT", "control"),
        ("ULDC.64 UR4, c[0x0][0x208]", "uniform"),
        ("MOV R0, R1", "mov"),
        ("IADD3 R0, R1, R2, RZ", "alu"),
        ("FSETP.GT.AND P0, PT, R0, R1, PT", "alu"),
    ],
)
def test_each_instruction_has_a_unit(text: str, unit: str) -> None:
    assert unit_of(instruction(text)) == unit
    assert UNITS[unit]


def test_loads_cost_rounds_not_cycles() -> None:
    load = instruction("LDG.E R0, [R2]")
    assert loads(load) and latency(load) == 0
    assert not loads(instruction("STG.E [R2], R0"))
    assert latency(instruction("SHFL.IDX PT, R1, R0, R2, 0x1f")) == 23


def test_a_fence_costs_by_its_scope() -> None:
    cycles = [
        latency(instruction(f"MEMBAR.{which}"))
        for which in ("SC.CTA", "ALL.GPU", "SC.GPU", "SC.SYS")
    ]
    assert 0 < cycles[0] < cycles[1] == cycles[2] < cycles[3]
