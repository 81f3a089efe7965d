"""Programmatic launches held against the PTX: what they may touch before the wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.plan.early_reads import EarlyReads
from astra_chat.tools.plan.model import (
    ArgumentAddress,
    KernelNode,
    LaunchPlan,
    PointerRelocation,
    VariableAddress,
)
from astra_chat.tools.types import Case

PTX = """.version 9.0
.target sm_90
.address_size 64
.global .align 8 .b8 table[64];
.visible .entry kernel(.param .u64 x, .param .u64 w, .param .u64 t, .param .u32 late)
{
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<9>;
  ld.param.u64 %d0, [x]; ld.param.u64 %d1, [w]; ld.param.u64 %d2, [t]; ld.param.u32 %r0, [late];
  setp.eq.u32 %p0, %r0, 0; mov.u32 %r2, %tid.x; setp.ge.u32 %p1, %r2, 32;
"""
"""The body of the kernel follows."""
WAIT = "griddepcontrol.wait;"
ONE_WARP_WAITS = f"@%p1 bra on; {WAIT} on: ld.global.u32 %r1, [%d0];"
LATER_IN_THE_LOOP = (
    f"mov.u32 %r3, 0; again: ld.global.u32 %r1, [%d0]; setp.ne.u32 %p2, %r3, 0; @%p2 bra on; {WAIT}"
    " on: add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 3; @%p3 bra again;"
)
IF_TOLD = f"@%p0 bra on; {WAIT} on: ld.global.u32 %r1, [%d0];"


def plan(late: int = 1, *, programmatic: bool = True) -> LaunchPlan:
    pointers = (
        PointerRelocation(at=0, to=ArgumentAddress(name="x", offset=0)),
        PointerRelocation(at=8, to=ArgumentAddress(name="w", offset=0)),
        PointerRelocation(at=16, to=VariableAddress(name="table", offset=0)),
    )
    node = KernelNode(
        kernel="kernel",
        grid=(1, 1, 1),
        block=(64, 1, 1),
        programmatic=programmatic,
        parameters=bytes(24) + late.to_bytes(4, "little"),
        relocations=pointers,
    )
    return LaunchPlan(case=Case(dims={"n": 1}, dtype="float32", seed=1), nodes=(node,))


def fault(tmp_path: Path, body: str, launched: LaunchPlan, weights: tuple[str, ...] = ()) -> str:
    ptx = tmp_path / "kernel.ptx"
    ptx.write_text(f"{PTX}{body} ret; }}")
    found = EarlyReads(weights).fault(ptx, launched)
    return "" if found is None else f"{found.what} ({found.where})"


@pytest.mark.parametrize("body", [ONE_WARP_WAITS, LATER_IN_THE_LOOP])
def test_a_path_past_the_wait_is_unsafe(tmp_path: Path, body: str) -> None:
    said = fault(tmp_path, body, plan())
    assert "some path skips griddepcontrol.wait and reaches x" in said and "ld.global.u32" in said
    assert fault(tmp_path, body, plan(programmatic=False)) == ""


def test_a_kernel_that_never_waits_is_unsafe(tmp_path: Path) -> None:
    assert "it never waits" in fault(tmp_path, "", plan())


def test_weights_and_variables_may_be_read_before_the_wait(tmp_path: Path) -> None:
    body = f"ld.global.u32 %r1, [%d2]; ld.global.u32 %r1, [%d1]; {WAIT} st.global.u32 [%d0], %r1;"
    assert "reaches w," in fault(tmp_path, body, plan())
    assert fault(tmp_path, body, plan(), ("w",)) == ""


BY_AN_EXTENT = "mul.wide.u32 %d4, %r0, 4; add.s64 %d5, %d1, %d4; ld.global.u32 %r1, [%d5];"
ONE_OF_TWO = "selp.b64 %d5, %d1, %d2, %p0; ld.global.u32 %r1, [%d5];"


@pytest.mark.parametrize("body", [BY_AN_EXTENT, ONE_OF_TWO])
def test_an_extent_may_choose_the_weight_that_is_read(tmp_path: Path, body: str) -> None:
    """A place that depends on a number among the parameters, which is no argument's memory."""
    body += f" {WAIT} st.global.u32 [%d0], %r1;"
    assert fault(tmp_path, body, plan(), ("w",)) == ""
    assert "reaches w," in fault(tmp_path, body, plan())
    assert "reaches x," in fault(tmp_path, body.replace("%d1", "%d0"), plan(), ("w",))


@pytest.mark.parametrize(("late", "unsafe"), [(1, False), (0, True)])
def test_a_parameter_says_whether_to_wait(tmp_path: Path, late: int, unsafe: bool) -> None:
    assert bool(fault(tmp_path, IF_TOLD, plan(late))) == unsafe


def test_a_plan_without_a_kernel_file_is_not_looked_at(tmp_path: Path) -> None:
    assert EarlyReads(()).fault(tmp_path / "none.ptx", plan()) is None
