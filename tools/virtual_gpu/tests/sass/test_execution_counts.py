"""Visits of the PTX's blocks spread over blocks of machine code."""

from __future__ import annotations

import pytest
from tests.sass.code import instruction, kernel

from astra_vgpu.sass.block_mapping import PtxBlock, place
from astra_vgpu.sass.control_flow import basic_blocks, loops
from astra_vgpu.sass.execution_counts import Executions, MappedCode

LOOP = (
    PtxBlock((1, 2), (1,)),
    PtxBlock((3, 4), (1, 2), True, frozenset({4})),
    PtxBlock((5,), ()),
)
"""Before a loop, the loop, after it."""
LOAD, BACK = instruction("LDG.E", 3), "@P0 BRA `(.L_x_{})"
UNROLLED = kernel(
    instruction("IADD3", 1),
    "@P1 BRA `(.L_x_1)",
    ".L_x_0:",
    *[LOAD] * 4,
    BACK.format(0),
    "@P2 BRA `(.L_x_2)",
    ".L_x_1:",
    LOAD,
    BACK.format(1),
    ".L_x_2:",
    instruction("STG.E", 5),
    "EXIT",
)
"""Four turns at once, then a rest."""


def executions(code: object = UNROLLED) -> Executions:
    blocks = basic_blocks(code)  # type: ignore[arg-type]
    return Executions(MappedCode(blocks, tuple(loops(blocks)), place(blocks, LOOP), LOOP))


@pytest.mark.parametrize("turns", [1, 3, 4, 5, 8, 103])
def test_turns_of_an_unrolled_loop(turns: int) -> None:
    found = executions()
    runs = found.of((7, 7 * turns, 7))
    assert runs[0] == runs[-1] == 7
    assert (runs[1], runs[3]) == (7 * (turns // 4), 7 * (turns % 4))
    assert 4 * runs[1] + runs[3] == 7 * turns, "each load runs once"
    assert found.entered(1, runs) == (7 if turns >= 4 else 0)
    assert found.entered(0, runs) == 0


def test_nothing_ran() -> None:
    assert executions().of((3, 0, 3)) == [3, 0, 0, 0, 3]


def test_copies_side_by_side_share() -> None:
    """A block whose work stands twice, on both sides of a branch."""
    code = kernel(
        "@P0 BRA `(.L_x_0)",
        LOAD,
        "BRA `(.L_x_1)",
        ".L_x_0:",
        LOAD,
        ".L_x_1:",
        instruction("STG.E", 5),
        "EXIT",
    )
    ptx = (PtxBlock((3, 4), (1,)), PtxBlock((5,), ()))
    blocks = basic_blocks(code)
    found = Executions(MappedCode(blocks, (), place(blocks, ptx), ptx))
    assert found.of((10, 10)) == [0, 5, 5, 10]


def test_a_block_that_no_line_tells_of_runs_as_what_comes_before() -> None:
    code = kernel(
        instruction("LDG.E", 1),
        ".L_x_0:",
        *[LOAD] * 1,
        BACK.format(0),
        "BSYNC B0",
        instruction("STG.E", 5),
        "EXIT",
    )
    runs = executions(code).of((2, 20, 2))
    assert runs == [2, 20, 2, 2], "as often as the loop was left"
