"""Stores that follow each other in machine code."""

from __future__ import annotations

import pytest

from astra_vgpu.sass.disassembly import MachineInstruction
from astra_vgpu.sass.store_merging import follow

FIRST = "STG.E desc[UR4][R2.64+0x4], R5"
SECOND, THIRD = "STG.E desc[UR4][R2.64], R6", "STG.E desc[UR4][R2.64+-0x4], R7"


def code(*texts: str) -> list[MachineInstruction]:
    """Without what is of no account here."""
    found = []
    for text in texts:
        guard, text = text.split(None, 1) if text.startswith("@") else ("", text)
        opcode, _, operands = text.partition(" ")
        waits = (0,) if opcode == "F2FP" else ()
        board = 0 if opcode in ("I2F", "LDG") else 7
        found.append(MachineInstruction(opcode, operands, guard, 0, 1, board, 7, waits))
    return found


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ([], (2, 2)),
        (["IADD3 R1, R1, 0x1, RZ"], (2, 2)),
        (["FADD R1, R1, R1"] * 4, (1, 2)),
        (["I2F R2, R2", "F2FP R1, R2, R3"], (1, 2)),
        (["F2FP R1, R2, R3"], (2, 2)),
        (["LDG.E R9, desc[UR4][R8.64]"], (1, 1)),
        (["STG.E desc[UR4][R8.64], R9"], (1, 1)),
        (["@P0 STG.E desc[UR4][R2.64], R9"], (1, 1)),
        (["STG.E desc[UR4][R2.64+0x80], R9"], (1, 1)),
        (["BAR.SYNC 0x0"], (1, 1)),
    ],
)
def test_what_stands_between(between: list[str], expected: tuple[int, int]) -> None:
    assert follow(code(FIRST, *between, SECOND, THIRD)) == expected
