"""Barriers of a thread block (bar.sync, bar.arrive, bar.red): which lanes wait, when they open."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.lowering.control_flow import is_reducing_barrier
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.address_spaces import lane_number
from astra_vgpu.numpy_engine.block_races import meet
from astra_vgpu.numpy_engine.code import Code, Read, Write
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import Active, Frame, Mask
from astra_vgpu.ptx.syntax import Instruction
from astra_vgpu.types import WARP_LANES

TORN = (
    "only some threads of the warp reach this barrier: move it out of the branch, to where all"
    " threads of the block come"
)
STUCK = (
    "some threads wait here, others elsewhere: all threads of the block have to come to the same"
    " barriers, so none may be in a branch that only some take"
)
Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class Reduction:
    how: str
    """popc, and, or."""
    value: Read
    write: Write


@dataclass(frozen=True)
class Barrier:
    instruction: Instruction
    number: Read
    threads: Read | None
    """Threads that take part; None means all of the block."""
    aligned: bool
    """All lanes of a warp must arrive together: bar.sync, unlike barrier.sync."""
    reduction: Reduction | None
    target: int
    """Basic block after it."""
    place: int
    """Basic block that it ends."""
    rejoined: frozenset[int] = frozenset()
    """Basic blocks through which all that pass it come later: who is there has gone round it."""
    waits: bool = True
    """Not at bar.arrive: lanes there are counted and continue."""


def translate_barrier(code: Code, target: int, place: int, rejoined: frozenset[int]) -> Barrier:
    """bar.sync a{, b}, bar.arrive a, b and bar.red.op.type d, a{, b}, c."""
    code.check_place()
    code.flag("cta")
    aligned = code.flag("aligned") or code.instruction.family == "bar"
    waits = True
    if is_reducing_barrier(code.instruction):
        code.option("red")
        how = code.option("popc", "and", "or")
        type_name = code.type("u32", "pred")
        last = code.count(3, 4) - 1
        reduction = Reduction(how, code.read(last, "pred"), code.write(0, type_name))
        first = 1
    else:
        waits = code.option("sync", "arrive") == "sync"
        last = code.count(*((1, 2) if waits else (2,)))
        first, reduction = 0, None
    threads = code.read(first + 1, "u32") if last - first > 1 else None
    code.done()
    number = code.read(first, "u32")
    return Barrier(
        code.instruction, number, threads, aligned, reduction, target, place, rejoined, waits
    )


@dataclass
class _Arrival:
    barrier: Barrier
    number: int
    threads: int | None
    mask: Mask
    votes: Mask
    """The predicates of bar.red."""


def _different(numbers: Array, active: Active) -> Array:
    first = numbers[active.mask][:1] if numbers.strides[-1] else numbers.reshape(-1)[:1]
    if numbers.strides == (0, 0) or (numbers[active.mask] == first).all():
        return first
    return np.unique(numbers[active.mask])


class BarrierWaits:
    """The lanes of a batch that wait at barriers."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self._skipped = np.zeros(shape, np.bool_)
        """Lanes that went round a barrier at which others of their warp wait: they may end, but
        are missed there all the same. Lanes that ended before are not."""
        self._arrivals: list[_Arrival] = []

    def passed(self, index: int, active: Active) -> None:
        """Lanes come to a basic block."""
        for arrival in self._arrivals:
            if arrival.barrier.waits and index in arrival.barrier.rejoined:
                warps = arrival.mask.reshape(-1, WARP_LANES).any(axis=1)
                here = np.repeat(warps, WARP_LANES).reshape(active.mask.shape)
                self._skipped |= active.mask & here

    @property
    def empty(self) -> bool:
        return not any(arrival.barrier.waits for arrival in self._arrivals)

    def arrive(self, f: Frame, barrier: Barrier, active: Active) -> None:
        f.enter(active)
        numbers = np.broadcast_to(barrier.number(f), f.shape)
        threads = None if barrier.threads is None else barrier.threads(f)
        votes = active.mask
        if barrier.reduction is not None:
            votes = active.mask & barrier.reduction.value(f)
        if f.counters is not None:
            f.counters.barrier(active)
        for number in _different(numbers, active):
            mask = active.mask & (numbers == number)
            wanted = None if threads is None else int(np.broadcast_to(threads, f.shape)[mask][0])
            self._arrivals.append(_Arrival(barrier, int(number), wanted, mask, votes & mask))

    def open(self, f: Frame, *, others_wait: bool = False) -> list[tuple[int, Mask]]:
        """Opens what all have reached: (basic block, lanes that continue there).

        Raises Fault if no barrier can open (unless others_wait, at mbarriers), or one is reached by
        a part of a warp only.
        """
        released: list[tuple[int, Mask]] = []
        for number in {arrival.number for arrival in self._arrivals}:
            here = [a for a in self._arrivals if a.number == number]
            rows = self._complete(f, here)
            if rows.any():
                self._check(f, here, rows)
                self._reduce(f, here, rows)
                if f.races is not None:
                    f.races.advance(rows)
                meet(f, np.logical_or.reduce([a.mask for a in here]) & rows[:, None])
                released += self._release(here, rows)
        self._arrivals = [a for a in self._arrivals if a.mask.any()]
        if not released and not others_wait:
            first = next(arrival for arrival in self._arrivals if arrival.barrier.waits)
            raise self._fault(f, first, first.mask, STUCK)
        return released

    def _complete(self, f: Frame, here: list[_Arrival]) -> Rows:
        """The blocks of which everyone needed has arrived."""
        arrived = np.logical_or.reduce([a.mask for a in here])
        if here[0].threads is None:
            return np.asarray((arrived == f.live).all(axis=1) & arrived.any(axis=1))
        warps = arrived.reshape(arrived.shape[0], -1, WARP_LANES).any(axis=2).sum(axis=1)
        return np.asarray(warps * WARP_LANES >= here[0].threads)

    def _check(self, f: Frame, here: list[_Arrival], rows: Rows) -> None:
        """PTX: all threads of a warp execute the same aligned barrier, if any does."""
        for arrival in here:
            if not arrival.barrier.aligned:
                continue
            mine = (arrival.mask & rows[:, None]).reshape(-1, WARP_LANES)
            same = np.logical_or.reduce(
                [a.mask for a in here if a.barrier is arrival.barrier]
            ).reshape(-1, WARP_LANES)
            absent = (f.live | self._skipped).reshape(-1, WARP_LANES) & ~same
            torn = mine & absent.any(axis=1, keepdims=True)
            if torn.any():
                raise self._fault(
                    f, arrival, torn.reshape(f.shape), _torn_message(torn, here, arrival)
                )
        if here[0].threads is None:
            self._check_round(f, here, rows)

    def _check_round(self, f: Frame, here: list[_Arrival], rows: Rows) -> None:
        """Raises Fault where whole warps went round a barrier of all threads at which others wait,
        and wait at one that these come to later: PTX counts them, but they are one barrier ahead
        from then on. Barriers of two branches are alike, and warps that ended are not missed."""
        for first, second in itertools.permutations(here, 2):
            if second.barrier.place in first.barrier.rejoined:
                both = rows & first.mask.any(axis=1) & second.mask.any(axis=1)
                if both.any():
                    message = later_barrier_message(second.barrier.instruction)
                    raise self._fault(f, first, first.mask & both[:, None], message)

    def _fault(self, f: Frame, arrival: _Arrival, mask: Mask, what: str) -> Exception:
        lane = lane_number(Active(mask, int(mask.sum())), 0)
        return f.fault(
            arrival.barrier.instruction,
            "barrier_divergence",
            what,
            machine.LAUNCH_FAILURE,
            lane,
        )

    def _reduce(self, f: Frame, here: list[_Arrival], rows: Rows) -> None:
        votes = np.logical_or.reduce([a.votes for a in here])
        arrived = np.logical_or.reduce([a.mask for a in here])
        for arrival in here:
            reduction = arrival.barrier.reduction
            if reduction is None:
                continue
            mask = arrival.mask & rows[:, None]
            f.enter(Active(mask, int(np.count_nonzero(mask))))
            totals: dict[str, Array] = {
                "popc": votes.sum(axis=1, keepdims=True, dtype=np.uint32),
                "or": votes.any(axis=1, keepdims=True),
                "and": (votes == arrived).all(axis=1, keepdims=True),
            }
            reduction.write(f, totals[reduction.how])

    def _release(self, here: list[_Arrival], rows: Rows) -> list[tuple[int, Mask]]:
        released: list[tuple[int, Mask]] = []
        for arrival in here:
            mask = arrival.mask & rows[:, None]
            if mask.any():
                self._skipped &= ~mask
                if arrival.barrier.waits:
                    released.append((arrival.barrier.target, mask))
                arrival.mask = arrival.mask & ~rows[:, None]
                arrival.votes = arrival.votes & ~rows[:, None]
        return released


def _torn_message(torn: Mask, here: list[_Arrival], arrival: _Arrival) -> str:
    warps = torn.any(axis=1)
    for other in here:
        there = other.mask.reshape(-1, WARP_LANES).any(axis=1)
        if other.barrier is not arrival.barrier and (there & warps).any():
            return other_barrier_message(other.barrier.instruction)
    return TORN


def later_barrier_message(later: Instruction) -> str:
    return (
        "other warps of the block went round this barrier and wait at a later one"
        f" ({_place_of(later)}): move it out of the branch, to where all threads of the block come"
    )


def _place_of(barrier: Instruction) -> str:
    return barrier.source or f"PTX line {barrier.line}"


def other_barrier_message(other: Instruction) -> str:
    return (
        f"other threads of the warp wait at another barrier ({_place_of(other)}): move both out of"
        " the branch, to where all threads of the block come"
    )
