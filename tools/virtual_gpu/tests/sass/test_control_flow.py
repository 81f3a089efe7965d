"""Basic blocks and loops of code written by hand."""

from __future__ import annotations

import pytest
from tests.sass.code import kernel

from astra_vgpu.sass.control_flow import (
    CallsOwnFunction,
    basic_blocks,
    loops,
    predecessors,
)

NESTED = kernel(
    "S2R R0, SR_TID.X",
    ".L_x_0:",
    "IADD3 R1, R1, 1, RZ",
    ".L_x_1:",
    "FADD R2, R2, R3",
    "@P0 BRA `(.L_x_1)",
    "@!P1 BRA `(.L_x_0)",
    "EXIT",
)


def test_nested_loops_with_the_outer_one_first() -> None:
    blocks = basic_blocks(NESTED)
    assert [block.successors for block in blocks] == [(1,), (2,), (2, 3), (1, 4), ()]
    assert predecessors(blocks) == [[], [0, 3], [1, 2], [2], [3]]
    assert [(loop.head, set(loop.members)) for loop in loops(blocks)] == [
        (1, {1, 2, 3}),
        (2, {2}),
    ]
    assert not any(block.rare for block in blocks)


@pytest.mark.parametrize(
    ("branch", "successors"),
    [
        ("BRA `(.L_x_0)", (2,)),
        ("@P0 BRA `(.L_x_0)", (2, 1)),
        ("BRA P1, `(.L_x_0)", (2, 1)),
        ("BRA.U UP0, `(.L_x_0)", (2, 1)),
        ("BRA.DIV UR4, `(.L_x_0)", (1,)),
        ('BRX R4 -0x1b0 (*"BRANCH_TARGETS .L_x_0,.L_x_1"*)', (2, 3)),
        ("EXIT", ()),
        ("@!P2 EXIT", (1,)),
        ("BSYNC B0", (1,)),
    ],
)
def test_where_a_block_may_go_on(branch: str, successors: tuple[int, ...]) -> None:
    code = kernel(branch, "@P3 BRA `(.L_x_1)", ".L_x_0:", "BSSY B0, `(.L_x_1)", ".L_x_1:", "EXIT")
    blocks = basic_blocks(code)
    assert blocks[0].successors == successors


def test_slow_paths_functions_and_what_nobody_reaches_are_rare() -> None:
    blocks = basic_blocks(
        kernel(
            "BRA.DIV UR4, `(.L_x_0)",
            ".L_x_1:",
            "SHFL.BFLY PT, R1, R0, 0x1, 0x1f",
            "@P0 BRA `(.L_x_2)",
            "CALL.REL.NOINC `($__internal_0_$__cuda_sm3x_div_slowpath)",
            ".L_x_2:",
            "EXIT",
            ".L_x_0:",
            "WARPSYNC.COLLECTIVE R2, `(.L_x_1)",
            "BRA `(.L_x_1)",
            "$__internal_0_$__cuda_sm3x_div_slowpath:",
            "MUFU.RCP R0, R0",
            "RET.REL.NODEC R4 `(k)",
        )
    )
    assert [(block.instructions[0].name, block.rare) for block in blocks] == [
        ("BRA", False),
        ("SHFL", False),
        ("CALL", True),
        ("EXIT", False),
        ("WARPSYNC", True),
        ("MUFU", True),
    ]
    assert loops(blocks) == [], "the way back from a slow path is no loop"


def test_a_function_of_the_source_is_not_taken_for_a_slow_path() -> None:
    """Whatever its name: a kernel could hide its work there. The guesses from the PTX stand."""
    for name in ("own", "row_slowpath", "__cuda_sm20_div_slowpath"):
        call = f"CALL.REL.NOINC `($k${name})"
        code = kernel(call, "EXIT", f"$k${name}:", "LDG.E R0, [R2]", "RET.REL.NODEC R4 `(k)")
        with pytest.raises(CallsOwnFunction, match=name):
            basic_blocks(code)


def test_where_parted_lanes_meet_is_reached() -> None:
    blocks = basic_blocks(kernel("BSSY B0, `(.L_x_0)", "EXIT", ".L_x_0:", "BSYNC B0", "EXIT"))
    assert [block.rare for block in blocks] == [False, False, False]
