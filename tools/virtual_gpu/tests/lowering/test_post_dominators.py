"""Post-dominators of hand-made graphs."""

from __future__ import annotations

from astra_vgpu.lowering.control_flow import BasicBlock, Branch, Jump, Leave
from astra_vgpu.lowering.post_dominators import post_dominators
from astra_vgpu.ptx.syntax import Guard, Instruction, Register

WORK = Instruction("add.u32", (), None, 1, "add.u32;")
TRAP = Instruction("trap", (), None, 2, "trap;")


def branch(taken: int, other: int) -> Branch:
    return Branch(Guard(Register("%p1", 1), False), taken, other)


def test_both_sides_of_a_branch_meet_again() -> None:
    blocks = [
        BasicBlock([WORK], branch(1, 2)),
        BasicBlock([WORK], Jump(3)),
        BasicBlock([WORK], Jump(3)),
        BasicBlock([WORK], Jump(4)),
        BasicBlock([], Leave()),
    ]
    assert post_dominators(blocks) == [{3}, {3}, {3}, set(), set()]


def test_a_trap_is_no_way_to_the_end_and_a_return_is_one() -> None:
    def fork(last: Instruction) -> list[BasicBlock]:
        return [
            BasicBlock([WORK], branch(1, 2)),
            BasicBlock([last], Leave()),
            BasicBlock([WORK], Leave()),
        ]

    assert post_dominators(fork(TRAP))[0] == {2}
    assert post_dominators(fork(WORK))[0] == set()


def test_a_loop_comes_back_to_its_head() -> None:
    blocks = [
        BasicBlock([WORK], branch(2, 1)),
        BasicBlock([WORK], Jump(0)),
        BasicBlock([], Leave()),
    ]
    assert post_dominators(blocks) == [set(), {0}, set()]
