"""Programmatic launches held against the PTX: what they may touch before the wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.model import (
    ArgumentAddress,
    KernelNode,
    LaunchPlan,
    PointerRelocation,
    VariableAddress,
)
from astra_chat.tools.run.launch_plans import EarlyReads, LaunchPlans
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.types import Case, Unsafe, Unsupported
from lab.attack_kernels import kernels

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
WAITS = "        /*0000*/  ACQBULK ;  /* 0x0000000000000000 */\n        /* 0x000fe20000000000 */\n"
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


def folder(path: Path) -> Build:
    return Build(path, (), cached=False, seconds=0.0)


def fault(tmp_path: Path, body: str, launched: LaunchPlan, weights: tuple[str, ...] = ()) -> str:
    """What is wrong with the PTX: its machine code loads nothing early."""
    (tmp_path / "kernel.ptx").write_text(f"{PTX}{body} ret; }}")
    (tmp_path / "kernel.sass").write_text(f".text.kernel:\n{WAITS}")
    found = EarlyReads(weights).fault(folder(tmp_path), launched)
    return "" if found is None else f"{found.what} ({getattr(found, 'where', '')})"


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
    assert EarlyReads(()).fault(folder(tmp_path), plan()) is None


def test_machine_code_that_cannot_be_read_is_unsupported(tmp_path: Path) -> None:
    """A file that is no cubin, and a text without the kernel."""
    (tmp_path / "kernel.ptx").write_text(f"{PTX}{WAIT} ret; }}")
    (tmp_path / "kernel.cubin").write_bytes(b"no cubin")
    assert isinstance(EarlyReads(()).fault(folder(tmp_path), plan()), Unsupported)
    (tmp_path / "kernel.sass").write_text(".text.other:\n")
    assert isinstance(EarlyReads(()).fault(folder(tmp_path), plan()), Unsupported)


ATTACKS = Path(__file__).parents[2] / "attacks"
MOVED = kernels("attacks")["x143_moved_before_the_wait.cu"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (MOVED, "the machine code loads x before griddepcontrol.wait"),
        (MOVED.replace("__ldg(row", "__ldcg(row"), ""),
        (MOVED.replace("config.numAttrs = 1", "config.numAttrs = 0"), ""),
    ],
    ids=["ldg", "ldcg", "not programmatic"],
)
def test_a_load_that_ptxas_moves_before_the_wait_is_unsafe(source: str, said: str) -> None:
    task, device = load_task(ATTACKS / "tasks" / "row_sum"), virtual_device("h200")
    built = build(task, source, device)
    assert isinstance(built, Build), built
    case = Case(dims={"rows": 3, "n": 5}, dtype="float32")
    (found,) = LaunchPlans(task, device, Stop()).of(built, [case], None, Seed("1"))
    if said:
        assert isinstance(found, Unsafe) and said in found.what
    else:
        assert isinstance(found, LaunchPlan)
