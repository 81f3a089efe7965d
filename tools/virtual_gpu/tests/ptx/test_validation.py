"""Whole texts that ptxas 13.0 did not take, and their neighbours that it took."""

from __future__ import annotations

import pytest

from astra_vgpu.c_engine import translate
from astra_vgpu.ptx.parser import parse
from astra_vgpu.ptx.validation import check, reached, unreached
from astra_vgpu.types import PtxUnsupported

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n.global .u32 gv; .shared .b8 sv[64];\n"
    ".extern .func x();\n.func f(.param .b32 a) { ret; }\n.func h() { ret; }\n"
    ".func j(.param .align 8 .b8 a[16]) { ret; }\n.visible .entry k(.param .u64 pa)\n"
    "{ .reg .pred %p<3>; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %rd<4>;\n"
)


def outcome(body: str) -> str:
    """What the C engine, which translates all instructions, makes of the kernel."""
    module = parse(f"{HEAD}{body}\nret; }}")
    try:
        translate(module, "k")
    except PtxUnsupported:
        return "unsupported"
    return "accepted"


@pytest.mark.parametrize(
    "body",
    [
        "bra.uni L; L:",
        "@!%p1 ret;",
        "L: { L: bra L; }",
        "call h;",
        "{ .param .f32 q; call f, (q); }",
        "{ .param .align 8 .b8 q[16]; call j, (q); }",
        "p: .branchtargets L; brx.idx %r1, p; L:",
        "mov.u64 %rd1, f;",
        "ld.u32 %r1, [sv];",
        "ret; add.s32 %r1, %r1, 1;",
        "membar.gl;",
        "prefetch.global.L2 [%rd1];",
    ],
)
def test_what_ptxas_takes(body: str) -> None:
    assert outcome(body) == "accepted"


@pytest.mark.parametrize(
    "body",
    [
        "bra.rn L; L:",
        "bra L, 5; L:",
        "ret %r1;",
        "ret.foo;",
        "exit.uni;",
        "trap 5;",
        "bra L; { L: }",
        "{ L: } bra L;",
        "{ L: } { bra L; }",
        "call.foo h;",
        "call x;",
        "{ .param .b64 q; call f, (q); }",
        "{ .param .b8 q[4]; call f, (q); }",
        "{ .param .align 4 .b8 q[16]; call j, (q); }",
        "{ .local .b32 q; call f, (q); }",
        "call f, (pa);",
        "{ .param .b32 q; call (5), f, (q); }",
        "call %rd1;",
        "p: .branchtargets L; brx.idx %rd1, p; L:",
        "mov.u64 %rd1, x;",
        "mov.u64 %rd1, f+4;",
        "mov.u32 %r1, gv;",
        "ld.global.u32 %r1, [sv];",
        "st.param.u64 [pa], %rd1;",
        "ld.param.u64 %rd1, [pa+-8];",
        "ret; add.s32 %f1, %f1, 1;",
        "trap; frob;",
        "bra L; add.f32add.f32 %f1, %f1, %f1; L:",
        "prefetch.global.L2 %rd1;",
    ],
)
def test_what_ptxas_does_not_take(body: str) -> None:
    assert outcome(body) == "unsupported"


def test_functions_that_nobody_calls_are_looked_at_and_those_of_other_kernels_are_not() -> None:
    head = ".version 9.0\n.target sm_90\n.address_size 64\n"
    texts = ".func g() { frob; ret; }\n.entry a() { ret; }\n"
    module = parse(head + texts)
    assert [f.name for f in unreached(module)] == ["g"]
    with pytest.raises(PtxUnsupported, match=r"kernel a: PTX line 4: .*'frob' of function g"):
        check(module, module.kernels["a"])
    module = parse(head + texts + ".entry b() { call g; ret; }\n")
    check(module, module.kernels["a"])
    assert [f.name for f in reached(module, module.kernels["b"])] == ["b", "g"]


def test_a_refusal_names_the_source_line() -> None:
    text = f'{HEAD}.loc 1 12 3\nadd.s32 %f1, %r1, 1; ret; }}\n.file 1 "a.cu"\n'
    module = parse(text)
    with pytest.raises(PtxUnsupported, match=r"PTX line 12: .*'add\.s32 %f1.*a\.cu:12"):
        check(module, module.kernels["k"])
