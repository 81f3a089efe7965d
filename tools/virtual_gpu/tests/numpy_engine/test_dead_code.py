"""Code that never runs is translated too."""

from __future__ import annotations

import pytest

from astra_vgpu import numpy_engine
from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import PtxUnsupported

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"


@pytest.mark.parametrize(
    "text",
    [
        ".entry k() { .reg .f32 %f<2>; ret; abs.f32.frob %f1, %f1; }",
        ".func f() { .reg .f32 %f<2>; abs.f32.frob %f1, %f1; ret; } .entry k() { ret; }",
    ],
)
def test_what_is_not_known_is_refused_there_too(text: str) -> None:
    with pytest.raises(PtxUnsupported, match="frob"):
        numpy_engine.translate(parse(HEAD + text), "k")


def test_what_is_known_costs_nothing() -> None:
    function = ".func f(.param .b32 a) { .reg .b32 %r<2>; ld.param.b32 %r1, [a]; ret; }"
    text = function + " .entry k() { ret; }"
    program = numpy_engine.translate(parse(HEAD + text), "k")
    assert not program.widths and numpy_engine.program.count(program) == 1
