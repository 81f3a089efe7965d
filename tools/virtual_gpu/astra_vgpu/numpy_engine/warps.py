"""Warp-wide instructions: shfl, vote, match, redux, elect, bar.warp.sync."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from astra_vgpu.memory.uninitialized_reads import absent
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.code import Code, Read, Step, family
from astra_vgpu.numpy_engine.dtypes import Array, dtype_of
from astra_vgpu.numpy_engine.frame import Active, Frame, Mask
from astra_vgpu.types import WARP_LANES

_LANES = np.arange(WARP_LANES, dtype=np.int64)
_BIT = np.uint32(1) << np.arange(WARP_LANES, dtype=np.uint32)

MASK_MISMATCH = (
    "member mask mismatch: a lane of the mask is not at this instruction, or another lane is; the"
    " mask has to name exactly the lanes that come here together"
)


def rows(f: Frame, value: Array) -> Array:
    """A value of all lanes with one row a warp: [warps, 32]; 0-stride where it was uniform."""
    full = np.broadcast_to(value, f.shape)
    return full.reshape(-1, WARP_LANES)


def members(f: Frame, code: Code, named: Array, active: Active) -> Mask:
    """[warps, 32]: the active lanes of each warp, after a check of the member mask.

    Raises Fault if a lane that the mask names is alive but not here, or one here is not named.
    """
    f.synced(active)
    here = rows(f, active.mask)
    named_here = (rows(f, named) & _BIT) != 0
    wanted = (named_here & here).any(axis=1)
    mask = np.where(here, rows(f, named), 0).max(axis=1, keepdims=True)
    expected = ((mask & _BIT) != 0) & rows(f, f.live) & wanted[:, None]
    missing = (expected & ~here) | (here & ~named_here)
    if _agrees(named, here, rows(f, named)) and missing.any():
        lane = int(np.argmax(missing.reshape(-1)))
        raise f.fault(
            code.instruction,
            "shuffle_missing_lane",
            MASK_MISMATCH,
            machine.LAUNCH_FAILURE,
            lane,
        )
    return here


def _agrees(named: Array, here: Mask, masks: Array) -> bool:
    """Several groups of a warp may be here at once, each with its own mask."""
    return named.size == 1 or bool((masks == masks.max(axis=1, keepdims=True))[here].all())


def _back(f: Frame, value: Array) -> Array:
    return value.reshape(f.shape)


_NOTHING = np.uint32(0xFFFFFFFF)


@family("shfl")
def shuffle(code: Code) -> Step:
    """d|p: the value of another lane, and whether that lane was in range. A lane that is not here
    has no value that PTX knows of: a NaN."""
    code.option("sync")
    source = _SOURCES[code.option(*_SOURCES)]
    code.type("b32")
    code.count(5)
    first, second = code.pair(0)
    write, write_in_range = (
        code.writer(first, dtype_of("b32")),
        code.writer(second, dtype_of("pred")),
    )
    value, lane_of, clamp = (code.read(index, "b32") for index in (1, 2, 3))
    named, active_lanes = code.read(4, "u32"), code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        here = members(f, code, named(f), active)
        b, c = (_lane_numbers(f, read(f)) for read in (lane_of, clamp))
        target, in_range = source(b & 31, c & 31, (c >> 8) & 31)
        target = np.where(in_range, target, _LANES)
        values = rows(f, value(f))
        if target.shape[0] == 1:
            taken = values[:, target[0]]
        else:
            taken = np.take_along_axis(values, target, axis=1)
        if not active.dense:
            lanes = np.broadcast_to(target, values.shape)
            there = np.take_along_axis(here, lanes, axis=1)
            if not (there | ~here).all():
                lane = int(np.argmax((~there & here).reshape(-1)))
                place = absent(int(lanes.reshape(-1)[lane]))
                f.note_uninitialized(code.instruction, 4, lane, lambda: place)
            taken = np.where(there, taken, _NOTHING)
        write(f, _back(f, taken))
        write_in_range(f, _back(f, np.broadcast_to(in_range, values.shape)))

    return step


def _lane_numbers(f: Frame, value: Array) -> Array:
    """int64 [warps or 1, 32]."""
    if value.size == 1:
        return np.broadcast_to(value.astype(np.int64), (1, WARP_LANES))
    return rows(f, value).astype(np.int64)


def _idx(b: Array, clamp: Array, segment: Array) -> tuple[Array, Array]:
    lowest, highest = _limits(clamp, segment)
    target = lowest | (b & ~segment & 31)
    return target, target <= highest


def _up(b: Array, clamp: Array, segment: Array) -> tuple[Array, Array]:
    _, highest = _limits(clamp, segment)
    target = _LANES - b
    return target, target >= highest


def _down(b: Array, clamp: Array, segment: Array) -> tuple[Array, Array]:
    _, highest = _limits(clamp, segment)
    target = _LANES + b
    return target, target <= highest


def _bfly(b: Array, clamp: Array, segment: Array) -> tuple[Array, Array]:
    _, highest = _limits(clamp, segment)
    target = _LANES ^ b
    return target, target <= highest


def _limits(clamp: Array, segment: Array) -> tuple[Array, Array]:
    return _LANES & segment, (_LANES & segment) | (clamp & ~segment & 31)


_SOURCES: dict[str, Callable[[Array, Array, Array], tuple[Array, Array]]] = {
    "idx": _idx,
    "up": _up,
    "down": _down,
    "bfly": _bfly,
}


def _ballot(chosen: Mask) -> Array:
    """uint32 [warps, 1]"""
    ballot: Array = (chosen * _BIT).sum(axis=1, keepdims=True, dtype=np.uint32)
    return ballot


def _grouped(f: Frame, code: Code, named: Array, active: Active) -> tuple[Mask, Array]:
    """Active lanes, and for each lane the lanes it counts with: uint32 [warps, 32]."""
    here = members(f, code, named, active)
    return here, rows(f, named) & _ballot(here)


@family("vote")
def vote(code: Code) -> Step:
    code.option("sync")
    how = code.option("ballot", "all", "any", "uni")
    result = code.type("b32") if how == "ballot" else code.type("pred")
    code.count(3)
    write, chosen, named = code.write(0, result), code.read(1, "pred"), code.read(2, "u32")
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        here, group = _grouped(f, code, named(f), active)
        votes = _ballot(here & rows(f, chosen(f))) & group
        answers: dict[str, Callable[[], Array]] = {
            "ballot": lambda: votes,
            "all": lambda: votes == group,
            "any": lambda: votes != 0,
            "uni": lambda: (votes == group) | (votes == 0),
        }
        write(f, _back(f, answers[how]()))

    return step


def _firsts(same: Array, here: Array) -> Array:
    """How many lanes of each warp are the first of those with their value. int64 [warps]"""
    return np.asarray(((same & -same == _BIT) & here).sum(axis=1, dtype=np.int64))


@family("match")
def match(code: Code) -> Step:
    """any: the lanes with the same value. all: all of them and true if the value is one."""
    how = code.option("any", "all")
    code.option("sync")
    type_name = code.type("b32", "b64")
    code.count(3)
    first, second = code.pair(0)
    write = code.writer(first, dtype_of("b32"))
    write_same = code.writer(second, dtype_of("pred"))
    value, named, active_lanes = code.read(1, type_name), code.read(2, "u32"), code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        here, group = _grouped(f, code, named(f), active)
        values = rows(f, value(f))
        equal = values[:, :, None] == values[:, None, :]
        same = (equal * _BIT).sum(axis=2, dtype=np.uint32) & group
        if f.counters is not None and how == "any":
            f.counters.match(active, _firsts(same, here))
        if how == "all":
            unanimous = same == group
            same = np.where(unanimous, group, np.uint32(0))
            write_same(f, _back(f, unanimous))
        write(f, _back(f, same))

    return step


_REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@family("redux")
def redux(code: Code) -> Step:
    code.option("sync")
    how = code.option(*_REDUCTIONS)
    type_name = code.type("u32", "s32", "b32")
    code.count(3)
    write, value, named = code.write(0, type_name), code.read(1, type_name), code.read(2, "u32")
    active_lanes = code.active
    reduce, neutral = _REDUCTIONS[how], _neutral(how, type_name)

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        here, group = _grouped(f, code, named(f), active)
        values = rows(f, value(f))
        if (group == group[:, :1])[here].all():
            kept = np.where(here & ((group & _BIT) != 0), values, neutral)
            total = reduce.reduce(kept, axis=1, keepdims=True, dtype=values.dtype)
            write(f, _back(f, np.broadcast_to(total, values.shape)))
        else:
            inside = (group[:, :, None] & _BIT) != 0
            kept = np.where(inside, values[:, None, :], neutral)
            write(f, _back(f, reduce.reduce(kept, axis=2, dtype=values.dtype)))

    return step


def _neutral(how: str, type_name: str) -> Array:
    limits = np.iinfo(dtype_of(type_name))
    value = {"min": limits.max, "max": limits.min, "and": -1 if limits.min else limits.max}
    return np.array(value.get(how, 0), dtype_of(type_name))


@family("activemask")
def activemask(code: Code) -> Step:
    code.type("b32")
    write, active_lanes = code.write(0, "b32"), code.active

    def step(f: Frame) -> None:
        ballot = _ballot(rows(f, active_lanes(f).mask))
        write(f, _back(f, np.broadcast_to(ballot, (ballot.shape[0], WARP_LANES))))

    return step


@family("elect")
def elect(code: Code) -> Step:
    """One lane of the members: the lowest."""
    code.option("sync")
    code.count(2)
    first, second = code.pair(0)
    write, write_chosen = code.writer(first, dtype_of("b32")), code.writer(second, dtype_of("pred"))
    named, active_lanes = code.read(1, "u32"), code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if not active.count:
            return
        _, group = _grouped(f, code, named(f), active)
        lowest = group & (~group + np.uint32(1))
        lane = np.bitwise_count(lowest - np.uint32(1)).astype(np.uint32)
        write(f, _back(f, lane))
        write_chosen(f, _back(f, lowest == _BIT))

    return step


@family("bar")
@family("barrier")
def warp_barrier(code: Code) -> Step:
    """bar.warp.sync only: barriers of the block end basic blocks."""
    code.option("warp")
    code.option("sync")
    code.count(1)
    named: Read = code.read(0, "u32")
    active_lanes = code.active

    def step(f: Frame) -> None:
        active = active_lanes(f)
        if active.count:
            members(f, code, named(f), active)

    return step
