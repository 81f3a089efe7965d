"""The list of instructions: each once, with registers that fit."""

from __future__ import annotations

from lab.virtual_gpu.numerics.instructions import instructions


def test_every_name_is_there_once() -> None:
    names = [i.name for i in instructions()]
    assert len(names) == len(set(names)) > 800
    for name in ("fma.rm.ftz.f32", "cvt.rzi.s64.f64", "tanh.approx.bf16x2", "dp2a.hi.u32.s32"):
        assert name in names


def test_approximate_ones_have_a_bound() -> None:
    approximate = {i.name for i in instructions() if i.approximate}
    assert len(approximate) == 30
    assert approximate == {
        i.name for i in instructions() if ".approx" in i.name or ".full" in i.name
    }
