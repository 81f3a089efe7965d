"""Which accesses some path leads to without griddepcontrol.wait."""

from __future__ import annotations

import pytest

from astra_vgpu.lowering.control_flow import control_flow
from astra_vgpu.lowering.early_access import EarlyAccesses, LaunchParameters
from astra_vgpu.lowering.inline import inline
from astra_vgpu.ptx.parser import parse
from astra_vgpu.ptx.syntax import Instruction

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n.global .align 8 .b8 room[64];\n"
    ".visible .entry kernel(.param .u64 a, .param .u64 w, .param .u8 late, .param .u32 n)\n"
    "{ .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;"
    " .shared .align 16 .b8 tile[64]; ld.param.u64 %d0, [a]; ld.param.u64 %d1, [w];"
    " ld.param.u8 %h0, [late]; ld.param.u32 %r5, [n]; mov.u32 %r0, %tid.x; mov.u32 %r6, %ctaid.x;"
    " mov.u32 %r7, %nctaid.x; setp.lt.u32 %p0, %r0, 32; setp.ge.u32 %p1, %r0, %r5;\n"
)
W = 8
"""Offset of the weights."""
WAIT, LOAD = "griddepcontrol.wait;", "ld.global.u32 %r1, [%d0];"
OF_PARAMETER = f"ld.global.u32 %r1, [%d5]; {WAIT}"
EITHER = (
    "@%p0 bra one; add.s64 %d4, %d3, {}; bra both; one: mov.b64 %d4, %d3;"
    " both: ld.param.u64 %d5, [%d4];"
)
CASES = [
    (LOAD, False),  # it never waits: that is found elsewhere
    (f"{WAIT} {LOAD}", False),
    (f"{LOAD} {WAIT}", True),
    (f"st.global.u32 [%d0], 1; {WAIT}", True),
    (f"red.global.add.u32 [%d0], 1; {WAIT}", True),
    (f"cp.async.ca.shared.global [tile], [%d0], 4; {WAIT}", True),
    # Weights and variables may be read, and not written; prefetches, shared memory.
    (f"ld.global.u32 %r1, [%d1]; ld.global.u32 %r1, [room]; {WAIT}", False),
    (f"cp.async.ca.shared.global [tile], [%d1], 4; {WAIT}", False),
    (f"st.global.u32 [%d1], 1; {WAIT}", True),
    (f"prefetch.global.L2 [%d0]; st.shared.u32 [tile], 1; {WAIT}", False),
    # A pointer that is loaded leads anywhere.
    (f"ld.global.u64 %d2, [%d1]; ld.global.u32 %r1, [%d2]; {WAIT}", True),
    # Parameters read through a register: the weights', on two ways; one or the other; anything.
    (f"mov.b64 %d3, a; add.s64 %d4, %d3, 24; ld.param.u64 %d5, [%d4+-16]; {OF_PARAMETER}", False),
    (f"mov.b64 %d3, a; sub.s64 %d4, %d3, 8; ld.param.u64 %d5, [%d4+8]; {OF_PARAMETER}", True),
    (f"mov.b64 %d3, a; {EITHER.format(8)} {OF_PARAMETER}", True),
    (f"mov.b64 %d3, w; {EITHER.format(0)} {OF_PARAMETER}", False),
    (f"mov.b64 %d3, w; {EITHER.format('%d1')} {OF_PARAMETER}", True),
    (f"mov.b64 %d4, w; again: add.s64 %d4, %d4, 8; @%p0 bra again; ld.param.u64 %d5, [%d4];"
     f" {OF_PARAMETER}", True),
    # A branch passes the wait by: others, then all go on; a second condition, the same again.
    (f"@!%p0 bra on; {WAIT} on: {LOAD}", True),
    (f"@%p0 {WAIT} {LOAD}", True),
    (f"@!%p0 bra over; {WAIT} {LOAD} over:", False),
    (f"@!%p0 bra on; {WAIT} on: @!%p0 bra over; {LOAD} over:", False),
    (f"@!%p0 bra on; {WAIT} on: setp.ge.u32 %p2, %r0, 32; @%p2 bra over; {LOAD} over:", False),
    (f"@!%p0 bra on; {WAIT} on: setp.ge.u32 %p2, %r0, 64; @%p2 bra over; {LOAD} over:", True),
    (f"@%p0 {WAIT} @%p0 {LOAD}", False),
    (f"@%p0 {WAIT} @!%p0 {LOAD}", True),
    # Threads beyond the end leave before they wait.
    (f"@%p1 bra over; {WAIT} {LOAD} over:", False),
    (f"@%p1 ret; {WAIT} {LOAD}", False),
    # Loops: the load before the wait of the first pass; the wait before it; by the block's number.
    (f"mov.u32 %r4, 0; again: {LOAD} setp.ne.u32 %p2, %r4, 0; @%p2 bra on; {WAIT} on:"
     " add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 3; @%p3 bra again;", True),
    (f"mov.u32 %r4, 0; again: setp.ne.u32 %p2, %r4, 0; @%p2 bra on; {WAIT} on: {LOAD}"
     " add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 3; @%p3 bra again;", False),
    (f"mov.u32 %r4, %r6; again: setp.ne.u32 %p2, %r4, %r6; @%p2 bra on; {WAIT} on: {LOAD}"
     " add.u32 %r4, %r4, %r7; setp.lt.u32 %p3, %r4, %r5; @%p3 bra again;", False),
    # Without a first pass there is no wait, and behind the loop there is a load.
    (f"mov.u32 %r4, 0; again: setp.ge.u32 %p2, %r4, %r5; @%p2 bra out; {WAIT}"
     f" add.u32 %r4, %r4, 1; bra again; out: {LOAD}", True),
    # A condition that is computed again in the next pass may turn out otherwise.
    (f"mov.u32 %r4, 0; again: ld.global.u32 %r1, [%d1]; setp.eq.u32 %p2, %r1, 5; @%p2 bra in;"
     " add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 9; @%p3 bra again; ret;"
     f" in: setp.eq.u32 %p4, %r4, 0; @!%p4 bra on; {WAIT} on: {LOAD}", True),
]  # fmt: skip


def accesses(body: str) -> EarlyAccesses:
    module = parse(f"{HEAD}{body} ret; }}")
    kernel = module.kernels["kernel"]
    blocks = control_flow(inline(module, kernel), "kernel")
    return EarlyAccesses(blocks, {param.name: param.offset for param in kernel.params})


def first(body: str, parameters: LaunchParameters | None = None) -> Instruction | None:
    return accesses(body).first({W}, parameters)


@pytest.mark.parametrize(("body", "early"), CASES)
def test_what_is_touched_before_the_wait(body: str, early: bool) -> None:
    assert (first(body) is not None) == early


@pytest.mark.parametrize(("late", "early"), [(1, False), (0, True)])
def test_a_launch_says_whether_to_wait(late: int, early: bool) -> None:
    body = f"setp.eq.s16 %p2, %h0, 0; @%p2 bra on; {WAIT} on: {LOAD}"
    assert first(body) is not None
    values = bytes(16) + bytes([late, 0, 0, 0, 7, 0, 0, 0])
    assert (first(body, LaunchParameters(values, ((0, 8), (8, 8)))) is not None) == early
    assert first(body, LaunchParameters(values, ((16, 1),))) is not None


def test_an_expression_that_doubles_at_each_step_costs_little() -> None:
    doubled = "add.u32 %r1, %r1, %r1; " * 200
    assert (
        first(
            f"mov.u32 %r1, %r0; {doubled} setp.eq.u32 %p2, %r1, 0; @%p2 bra on; {WAIT} on: {LOAD}"
        )
        is not None
    )


def moved(body: str, text: str, weights: tuple[int, ...] = (W,)) -> Instruction | None:
    """Where the machine code does the loads of this text before its wait."""
    lines = {n for n, line in enumerate(f"{HEAD}{body}".splitlines(), 1) if text in line}
    return accesses(body).moved(lines, weights)


def test_a_load_behind_the_wait_that_the_machine_code_does_before_it() -> None:
    nc = "\nld.global.nc.u32 %r1, [%d0];\n"
    found = moved(f"{WAIT} {nc}", "ld.global.nc")
    assert found is not None and found.opcode == "ld.global.nc.u32"
    assert moved(f"{WAIT} {nc}", "no such load") is None
    assert moved(f"{WAIT} {nc.replace('%d0', '%d1')}", "ld.global.nc") is None  # a weight
    assert moved(f"{nc} {WAIT}", "ld.global.nc") is None  # first() finds it
    assert (
        moved(f"setp.ne.u32 %p2, 1, 1; @%p2 bra on; {WAIT} ret; on: {nc}", "ld.global.nc") is None
    )
