"""Recursive functions of a module, and what becomes of their bodies."""

from __future__ import annotations

import pytest

from astra_vgpu import c_engine, numpy_engine
from astra_vgpu.lowering.inline import inline
from astra_vgpu.lowering.recursion import recursive
from astra_vgpu.ptx.parser import Module, parse
from astra_vgpu.ptx.syntax import Instruction, Label
from astra_vgpu.types import PtxUnsupported

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
FUNCTION = (
    ".func (.param .b32 back) {name} (.param .b32 given)\n{{ .reg .b32 %r<4>;\n{body} ret; }}\n"
)
CALL = (
    "{{ .param .b32 slot; st.param.b32 [slot+0], %r1; .param .b32 result;"
    " call.uni (result), {name}, (slot); ld.param.b32 %r2, [result+0]; }}\n"
)
DECLARED = ".func (.param .b32 back) {name} (.param .b32 given);\n"


def module(kernel: str, **callees: str) -> Module:
    """Functions by name, each with the one that it calls."""
    declared = "".join(DECLARED.format(name=name) for name in callees)
    functions = "".join(
        FUNCTION.format(
            name=name, body="ld.param.u32 %r1, [given];" + (CALL.format(name=to) if to else "")
        )
        for name, to in callees.items()
    )
    entry = f".visible .entry kernel() {{ .reg .b32 %r<4>; mov.u32 %r1, 1;\n{kernel} ret; }}"
    return parse(HEAD + declared + functions + entry)


def test_families_of_functions_that_come_back_into_themselves() -> None:
    found = recursive(module("", a="b", b="a", c="c", d="c", e=""))
    assert set(found) == {"a", "b", "c"}
    assert found["a"] == found["b"] != found["c"]


def test_a_recursive_body_stands_once_however_often_it_is_called() -> None:
    calls = CALL.format(name="c") * 3 + CALL.format(name="d")
    flat = inline(found := module(calls, c="c", d="c"), found.kernels["kernel"])
    labels = [s.name for s in flat.body if isinstance(s, Label)]
    assert labels.count("$entry$c") == 1
    assert len(flat.targets["$returns$c"]) == 5  # three of the kernel, d's, its own
    assert not [s for s in flat.body if isinstance(s, Instruction) and s.family == "call"]


def test_an_address_that_can_not_be_moved_to_the_stack_is_refused() -> None:
    text = HEAD + FUNCTION.format(
        name="f",
        body=".reg .b64 %d<2>; .local .b8 room[8]; cvta.local.u64 %d1, room;"
        " ld.param.u32 %r1, [given];" + CALL.format(name="f"),
    )
    text += f".visible .entry kernel() {{ .reg .b32 %r<4>; {CALL.format(name='f')} ret; }}"
    for engine in (numpy_engine, c_engine):
        with pytest.raises(PtxUnsupported, match="this address in a recursive function"):
            engine.translate(parse(text), "kernel")
