"""Basic blocks, inlined calls, and registers that need no mask."""

from __future__ import annotations

import pytest

from astra_vgpu.lowering.control_flow import (
    BasicBlock,
    Branch,
    Jump,
    Leave,
    Suspend,
    Switch,
    control_flow,
    local_registers,
)
from astra_vgpu.lowering.inline import inline
from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import PtxUnsupported

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"


def blocks(body: str, before: str = "") -> list[BasicBlock]:
    module = parse(
        f"{HEAD}{before}\n.visible .entry k()\n{{ .reg .pred %p<4>; .reg .b32 %r<9>; {body} }}"
    )
    return control_flow(inline(module, module.kernels["k"]), "k")


def test_a_loop_and_its_exit() -> None:
    found = blocks(
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 9; @%p1 bra L; ret;"
    )
    entry, loop = found[:2]
    assert entry.end == Jump(1)
    assert isinstance(loop.end, Branch) and loop.end.taken == 1
    assert isinstance(found[loop.end.other].end, Jump | Leave)


def test_guarded_returns_and_barriers() -> None:
    found = blocks("@%p1 ret; @!%p2 bar.sync 0; mov.u32 %r1, 1; @%p3 exit; ret;")
    first = found[0].end
    assert isinstance(first, Branch) and found[first.taken].only_leaves
    after = found[first.other].end
    assert isinstance(after, Branch)
    # The guard of the barrier is @!p2: where p2 holds the lanes go round it.
    assert after.guard.register.name == "%p2"
    waits = [b for b in found if isinstance(b.end, Suspend)]
    assert len(waits) == 1


def test_unreachable_blocks_are_left_out() -> None:
    found = blocks("bra E; mov.u32 %r1, 1; frobnicate; E: ret;")
    assert all(i.family != "frobnicate" for b in found for i in b.body)


def test_switches() -> None:
    found = blocks("brx.idx %r1, T; T: .branchtargets A, B; A: ret; B: trap;")
    assert isinstance(found[0].end, Switch) and len(found[0].end.targets) == 2


def test_a_branch_to_nowhere_is_refused() -> None:
    with pytest.raises(PtxUnsupported, match="without a known target") as caught:
        blocks("bra NOWHERE;")
    assert (caught.value.kernel, caught.value.opcode, caught.value.line) == ("k", "bra", 6)


def test_warp_barriers_do_not_end_a_block() -> None:
    assert len(blocks("bar.warp.sync -1; ret;")[0].body) == 1


def test_local_registers_are_written_before_they_are_read_in_one_block() -> None:
    found = blocks(
        "mov.u32 %r1, 1; add.u32 %r2, %r1, 1; mov.u32 %r3, %r4; @%p1 mov.u32 %r5, %r2;"
        "setp.eq.u32 %p2, %r2, 1; @%p2 bra L; mov.u32 %r6, %r3; L: ret;"
    )
    assert local_registers(found) == {"%r1", "%r2", "%p2", "%r6"}


def test_a_register_that_a_loop_carries_is_not_local() -> None:
    found = blocks("L: add.u32 %r1, %r1, 1; mov.u32 %r2, %r1; @%p1 bra L; ret;")
    assert local_registers(found) == {"%r2"}


FUNCTION = (
    ".func (.param .b32 out) f(.param .b32 x)\n"
    "{ .reg .b32 %r<4>; .reg .pred %p<2>; .local .b8 d[8];"
    " ld.param.u32 %r1, [x]; setp.eq.u32 %p1, %r1, 0; @%p1 ret;"
    " st.param.u32 [out], %r1; bra E; E: ret; }\n"
)
CALL = (
    "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r1; call.uni (r), f, (a); "
    "ld.param.b32 %r2, [r]; }"
)


def test_calls_are_inlined_with_names_of_their_own() -> None:
    found = blocks(f"{CALL} {CALL} ret;", FUNCTION)
    instructions = [i for b in found for i in b.body]
    assert not any(i.family in ("call", "ret") for i in instructions)
    loads = [i for i in instructions if i.text == "ld.param.u32 %r1, [x]"]
    assert len({str(i.operands) for i in loads}) == 2


def test_lines_of_headers_become_the_line_of_the_call() -> None:
    """A function of the toolkit that was not inlined: the fault belongs to who called it."""
    function = ".func g()\n{ .loc 2 409 1\n trap; ret; }\n"
    files = '.file 1 "/x/k.cu"\n.file 2 "/usr/local/cuda/include/intrinsics.hpp"\n'
    found = blocks(".loc 1 50 3\n { call.uni g; } ret;", function + files)
    assert [i.source for b in found for i in b.body] == ["k.cu:50"]


@pytest.mark.parametrize(
    ("call", "before", "what"),
    [
        ("call.uni g;", ".extern .func g();", "external function g"),
        ("{ .reg .b64 %rd<2>; P: .callprototype ()_ (); call %rd1, P; }", "", "indirect"),
        ("call.uni (%r1), f, (%r2);", FUNCTION, "registers"),
        ("@%p1 call.uni g;", ".func g()\n{ ret; }", "guarded"),
    ],
)
def test_calls_that_can_not_be_inlined_are_refused(call: str, before: str, what: str) -> None:
    with pytest.raises(PtxUnsupported, match=what):
        blocks(call + " ret;", before)
