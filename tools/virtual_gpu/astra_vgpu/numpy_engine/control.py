"""Instructions that order, stop or report: fences, traps, assertions, printf."""

from __future__ import annotations

import numpy as np

from astra_vgpu.isa.clocks import MAX_SLEEP_NS
from astra_vgpu.numpy_engine import block_races, proxy_fences
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.address_spaces import WINDOWS, lane_number, select
from astra_vgpu.numpy_engine.code import Code, Step, family
from astra_vgpu.numpy_engine.frame import Frame
from astra_vgpu.numpy_engine.mbarrier_state import fence_before_copies
from astra_vgpu.ptx.syntax import Group, Symbol
from astra_vgpu.types import MAX_PRINTS, PRINT_BYTES, Print


def _nothing(f: Frame) -> None:
    return None


@family("membar")
def membar(code: Code) -> Step:
    return _fence(code, code.option("cta", "gl", "gpu", "sys"))


@family("fence")
def fence(code: Code) -> Step:
    """Orders accesses; here they are in order, those of bulk copies included."""
    if code.flag("proxy"):
        code.option("async")
        return _proxy_fence(code, code.optional("global", "shared::cta", "shared::cluster"))
    if code.flag("mbarrier_init"):
        code.option("release")
        code.option("cluster")
        return _nothing
    code.ignore("sc", "acq_rel", "acquire", "release")
    return _fence(code, code.option("cta", "cluster", "gpu", "sys"))


def _proxy_fence(code: Code, space: str | None) -> Step:
    """Bulk copies may read what was stored before it, in one space or in both."""
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if space != "global":
            fence_before_copies(f, active)
        if not (space or "").startswith("shared"):
            proxy_fences.fenced(f, active)

    return step


def _fence(code: Code, scope: str) -> Step:
    """Accesses are in order here; who sees what lies before one the race check wants to know."""
    active_lanes = code.active
    whole_gpu = scope not in ("cta", "cluster")

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if f.races is not None and active.count:
            f.races.fence(active)
        if whole_gpu:
            block_races.fence(f, active)

    return step


@family("griddepcontrol")
def grid_dependency(code: Code) -> Step:
    """Launches run one after the other: nothing to wait for, but who waited is noted."""
    if code.option("wait", "launch_dependents") != "wait":
        return _nothing
    active_lanes = code.active

    def step(f: Frame) -> None:
        if f.waited is not None:
            f.waited |= active_lanes(f).mask

    return step


@family("nanosleep")
def nanosleep(code: Code) -> Step:
    """Nothing but time passes."""
    code.type("u32")
    asked_ns, active_lanes = code.read(0, "u32"), code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        wanted = np.minimum(np.broadcast_to(asked_ns(f), f.shape), MAX_SLEEP_NS)
        f.sleep(np.where(active.mask, wanted, 0).astype(np.int64))

    return step


@family("pmevent")
def pmevent(code: Code) -> Step:
    code.ignore("mask")
    return _nothing


@family("trap")
@family("brkpt")
def trap(code: Code) -> Step:
    active_lanes = code.active
    instruction = code.instruction

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if active.count:
            lane = lane_number(active, 0)
            message = "the kernel stopped itself"
            raise f.fault(instruction, "trap", message, machine.LAUNCH_FAILURE, lane)

    return step


@family("__assertfail")
def assertion(code: Code) -> Step:
    """Parameters: message, file, line, function, character size."""
    arguments = code.operand(1)
    places = [
        code.offset_of(item.name)
        for item in (arguments.items if isinstance(arguments, Group) else ())
        if isinstance(item, Symbol)
    ]
    if len(places) != 5:
        raise code.refuse("this form of assertion")

    def step(f: Frame) -> None:
        lane = lane_number(f.active, 0)
        text, file, line, function = (_slot(f, lane, at) for at in places[:4])
        message = (
            f"assertion `{_string(f, text)}` failed in {_string(f, function)}, "
            f"{_string(f, file)}:{line & 0xFFFFFFFF}"
        )
        raise f.fault(code.instruction, "assert", message, machine.DEVICE_ASSERT, lane)

    return step


@family("vprintf")
def printf(code: Code) -> Step:
    """Recorded if output is wanted; the call returns 0 as for an empty format."""
    results, given = code.operand(0), code.operand(1)
    offsets, places = (
        [code.offset_of(item.name) for item in group.items if isinstance(item, Symbol)]
        if isinstance(group, Group)
        else []
        for group in (results, given)
    )
    if len(places) != 2:
        raise code.refuse("this form of printf")

    def step(f: Frame) -> None:
        starts = select(f.local.origin, f.active, f.shape)
        for offset in offsets:
            f.local.items(4)[(starts + offset) >> 2] = 0
        if f.prints is not None:
            lanes = np.flatnonzero(f.active.mask)[: MAX_PRINTS - len(f.prints)]
            f.prints += [_print(f, int(lane), places) for lane in lanes]

    return step


def _print(f: Frame, lane: int, places: list[int]) -> Print:
    text, arguments = (_slot(f, lane, place) for place in places)
    at = arguments - WINDOWS["local"]
    data = b""
    if 0 <= at < f.local.limit:
        start = int(np.broadcast_to(f.local.origin, f.shape).reshape(-1)[lane])
        data = f.local.data[start + at : start + min(at + PRINT_BYTES, f.local.limit)].tobytes()
    return Print(int(f.blocks[lane // f.shape[1]]), text, data)


def _slot(f: Frame, lane: int, offset: int) -> int:
    at = int(np.broadcast_to(f.local.origin, f.shape).reshape(-1)[lane]) + offset
    return int(f.local.data[at : at + 8].view(np.uint64)[0])


def _string(f: Frame, address: int) -> str:
    """A C string in global memory."""
    buffer = f.memory.find(address)
    if buffer is None:
        return "?"
    data = buffer.data[address - buffer.address :].tobytes()
    return data.partition(b"\0")[0].decode(errors="replace")
