"""Loads before griddepcontrol.wait, in machine code written by hand."""

from __future__ import annotations

import pytest
from tests.sass.code import instruction, kernel

from astra_vgpu.sass.disassembly import MachineInstruction
from astra_vgpu.sass.early_loads import loads_before_wait


def load(line: int, guard: str = "") -> MachineInstruction:
    return instruction(f"{guard} LDG.E.CONSTANT R1, desc[UR4][R2.64]".strip(), line)


FIRST, SECOND = load(1), load(2)
CASES = [
    ((FIRST, "ACQBULK", SECOND, "EXIT"), (1,)),
    ((FIRST, FIRST, SECOND, "ACQBULK", "EXIT"), (1, 2)),
    # Behind a wait under a condition, and before it.
    (("@P0 BRA `(.L_x_0)", "ACQBULK", ".L_x_0:", FIRST, "EXIT"), ()),
    ((FIRST, "@P0 BRA `(.L_x_0)", "ACQBULK", ".L_x_0:", SECOND, "EXIT"), (1,)),
    (("@P0 ACQBULK", FIRST, "EXIT"), ()),
    # Two ways, of which each waits.
    (("@P0 BRA `(.L_x_0)", "ACQBULK", "EXIT", ".L_x_0:", FIRST, "ACQBULK", SECOND, "EXIT"), (1,)),
    # In the pass of a loop that waits, and in a loop behind the wait.
    ((".L_x_0:", FIRST, "@P0 BRA `(.L_x_1)", "ACQBULK", ".L_x_1:", SECOND, "@P1 BRA `(.L_x_0)",
      "EXIT"), (1,)),
    (("ACQBULK", ".L_x_0:", FIRST, "@P1 BRA `(.L_x_0)", "EXIT"), ()),
    # What nothing leads to.
    (("ACQBULK", "EXIT", FIRST, "EXIT"), ()),
    # Functions that were not inlined: one that waits, and one that does not.
    ((FIRST, "CALL.REL.NOINC `($k$f)", SECOND, "EXIT", "$k$f:", "ACQBULK", "RET.REL"), (1,)),
    ((FIRST, "CALL.REL.NOINC `($k$f)", SECOND, "ACQBULK", "EXIT", "$k$f:", "RET.REL"), (1, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("code", "lines"), CASES)
def test_loads_that_no_wait_comes_before(
    code: tuple[str | MachineInstruction, ...], lines: tuple[int, ...]
) -> None:
    assert loads_before_wait(kernel(*code)) == lines


def test_an_unknown_line_is_0() -> None:
    assert loads_before_wait(kernel(load(0), "ACQBULK", "EXIT")) == (0,)
