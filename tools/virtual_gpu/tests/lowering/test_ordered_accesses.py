"""Which loads and stores order something."""

from __future__ import annotations

import pytest

from astra_vgpu.lowering.control_flow import control_flow
from astra_vgpu.lowering.inline import inline
from astra_vgpu.lowering.ordered_accesses import (
    deciding_loads,
    is_loose,
    is_ordered,
    looks_in_loops,
    unread_updates,
)
from astra_vgpu.ptx.parser import parse
from astra_vgpu.ptx.syntax import Instruction

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry kernel(.param .u64 a)\n"
    "{ .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<9>; ld.param.u64 %d0, [a];\n"
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ld.volatile.global.u32 %r1, [%d0];", False),
        (
            "again: ld.volatile.global.u32 %r1, [%d0]; setp.eq.u32 %p0, %r1, 0; @%p0 bra again;",
            True,
        ),
        ("again: ld.global.u32 %r1, [%d0]; setp.eq.u32 %p0, %r1, 0; @%p0 bra again;", False),
        (
            "again: atom.global.cas.b32 %r1, [%d0], 0, 1; setp.eq.u32 %p0, %r1, 1; @%p0 bra again;",
            True,
        ),
        (
            "again: atom.global.add.u32 %r1, [%d0], 1; setp.lt.u32 %p0, %r1, 9; @%p0 bra again;",
            False,
        ),
        ("ld.volatile.global.u32 %r1, [%d0]; setp.eq.u32 %p0, %r1, 0; @%p0 bra on; on:", False),
        # It adds up what it finds, as often as it was told.
        (
            "again: ld.volatile.global.u32 %r1, [%d0]; add.u32 %r2, %r2, %r1; add.u32 %r3, %r3, 1;"
            " setp.lt.u32 %p0, %r3, 8; @%p0 bra again;",
            False,
        ),
        # Through other lanes, through memory, or out of an outer loop.
        (
            "again: ld.volatile.global.u32 %r1, [%d0]; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;"
            " setp.eq.u32 %p0, %r2, 0; @%p0 bra again;",
            True,
        ),
        (
            "again: ld.volatile.global.u32 %r1, [%d0]; st.shared.u32 [%r4], %r1; bar.sync 0;"
            " ld.shared.u32 %r2, [%r4]; setp.eq.u32 %p0, %r2, 0; @%p0 bra again;",
            True,
        ),
        (
            "outer: mov.u32 %r3, 0; again: ld.volatile.global.u32 %r1, "
            "[%d0]; add.u32 %r2, %r2, %r1;"
            " add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 8; @%p0 bra again;"
            " setp.lt.u32 %p1, %r2, 8; @%p1 bra outer;",
            True,
        ),
        (
            "again: ld.volatile.global.u32 %r1, [%d0]; setp.ne.u32 %p0, "
            "%r1, 0; @%p0 ret; bra again;",
            True,
        ),
    ],
)
def test_loops_that_look(body: str, expected: bool) -> None:
    module = parse(f"{HEAD}{body} ret; }}")
    assert looks_in_loops(inline(module, module.kernels["kernel"]).body) == expected


@pytest.mark.parametrize(
    ("opcode", "looks", "expected"),
    [
        ("ld.volatile.global.u32", True, True),
        ("ld.volatile.global.u32", False, False),
        ("st.relaxed.gpu.global.u32", False, False),
        ("ld.acquire.gpu.global.u32", False, True),
        ("ld.global.u32", True, False),
    ],
)
def test_order(opcode: str, looks: bool, expected: bool) -> None:
    assert is_ordered(Instruction(opcode, (), None, 1), looks) == expected


@pytest.mark.parametrize(
    ("opcode", "looks", "expected"),
    [
        ("ld.volatile.global.u32", True, True),
        ("st.relaxed.gpu.global.u32", True, True),
        ("st.relaxed.gpu.global.u32", False, False),
        ("ld.acquire.gpu.global.u32", True, False),
        ("ld.global.u32", True, False),
    ],
)
def test_loose(opcode: str, looks: bool, expected: bool) -> None:
    assert is_loose(Instruction(opcode, (), None, 1), looks) == expected


LOOP = "again: ld.volatile.global.u32 %r1, [%d0]; setp.eq.u32 %p0, %r1, 0; @%p0 bra again; "


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (LOOP, {6}),
        (
            f"{LOOP}\nld.volatile.global.u32 %r2, [%d0+4]; add.u32 %r3, %r2, 1; "
            "st.global.u32 [%d0+8], %r3;",
            {6},
        ),
        (
            f"ld.relaxed.gpu.global.u32 %r4, [%d0]; and.b32 %r5, %r4, 1;\n{LOOP}\n"
            "setp.ne.u32 %p1, %r5, 0; @%p1 trap;",
            {6, 7},
        ),
        (f"{LOOP}\nld.acquire.gpu.global.u32 %r2, [%d0]; setp.eq.u32 %p1, %r2, 0;", {6}),
    ],
)
def test_loads_that_decide_something(body: str, lines: set[int]) -> None:
    module = parse(f"{HEAD}{body} ret; }}")
    blocks = control_flow(inline(module, module.kernels["kernel"]), "kernel")
    found = deciding_loads(blocks)
    assert {i.line for b in blocks for i in b.body if id(i) in found} == lines


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("red.global.add.u32 [%d0], 1;", 1),
        ("atom.global.add.u32 %r1, [%d0], 1;", 1),
        ("atom.global.add.u32 %r1, [%d0], 1; st.global.u32 [%d0+8], %r1;", 0),
        ("atom.global.add.u32 %r1, [%d0], 1; setp.eq.u32 %p0, %r1, 0; @%p0 bra on; on:", 0),
        ("red.global.max.u32 [%d0], 1;", 1),
        ("atom.global.exch.b32 %r1, [%d0], 1;", 1),
    ],
)
def test_updates_whose_result_nobody_reads(body: str, expected: int) -> None:
    module = parse(f"{HEAD}{body} ret; }}")
    blocks = control_flow(inline(module, module.kernels["kernel"]), "kernel")
    assert len(unread_updates(blocks)) == expected
