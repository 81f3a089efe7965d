"""The program: one kernel an instruction, and what it answers."""

from __future__ import annotations

import numpy as np
import pytest

from lab.virtual_gpu.numerics.inputs import inputs
from lab.virtual_gpu.numerics.instructions import instructions
from lab.virtual_gpu.numerics.program import answers, program

BY_NAME = {i.name: i for i in instructions()}


def test_inputs_of_instructions_are_shared() -> None:
    one, two = BY_NAME["add.rn.f32"], BY_NAME["sub.rn.f32"]
    text, data = program([one, two])
    assert data == program([one])[1] == b"".join(x.tobytes() for x in inputs(one))
    assert "add.rn.f32 %0, %1, %2;" in text and text.count("__global__") == 2


@pytest.mark.parametrize("engine", ["numpy", "c"])
def test_answers_are_the_instruction_s(engine: str) -> None:
    chosen = [BY_NAME["setp.lt.f32"], BY_NAME["neg.f16"], BY_NAME["mad.wide.s32"]]
    found = answers(chosen, engine=engine)  # type: ignore[arg-type]
    a, b = (x.view(np.float32) for x in inputs(chosen[0]))
    assert np.array_equal(found["setp.lt.f32"], a < b)
    assert np.array_equal(found["neg.f16"], np.arange(1 << 16) ^ 0x8000)
    x, y, z = inputs(chosen[2])
    with np.errstate(over="ignore"):
        wide = x.view(np.int32).astype(np.int64) * y.view(np.int32) + z.view(np.int64)
    assert np.array_equal(found["mad.wide.s32"].view(np.int64), wide)
