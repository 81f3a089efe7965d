"""What is published, and who has acquired it, step by step."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from astra_vgpu.memory.block_order import BlockOrder
from astra_vgpu.types import Dim3, Launch

FLAG = np.array([4096], np.uint64)
OTHER = FLAG + np.uint64(64)
ONE, BOTH = np.array([[True, False]]), np.array([[True, True]])


def block(number: int) -> NDArray[np.int64]:
    return np.array([number], np.int64)


class Run:
    """Three blocks of two warps; the first has done something in its second warp."""

    def __init__(self) -> None:
        self.order = BlockOrder(Launch("k", Dim3(3), Dim3(64), 0, b""))
        self.when = np.array([self.order.now])

    def do(self, step: str) -> None:
        number, what = int(step[0]), step[2:]
        at = OTHER if what.endswith("other") else FLAG
        if what == "fence":
            self.order.fence(block(number), ONE)
        elif what == "fence all":
            self.order.fence(block(number), BOTH)
        elif what == "meet":
            self.order.meet(block(number), BOTH)
        elif what.startswith("look"):
            self.order.acquire(block(number), block(0), at)
        else:
            flags, releases = what.startswith("flag"), what.startswith("release")
            rows = np.zeros(1, np.int64)
            self.order.publish(block(number), ONE, rows, at, releases=releases, flags=flags)

    def ordered(self, did: str, warp: int) -> bool:
        thread = np.array([40], np.uint16)
        return bool(self.order.ordered(block(0), thread, self.when, did, block(1), block(warp))[0])


@pytest.mark.parametrize(
    ("steps", "did", "warp", "expected"),
    [
        ("0 meet, 0 fence, 0 add, 1 look, 1 meet", "wrote", 1, True),
        ("0 fence all, 0 meet, 0 add, 1 look, 1 meet", "wrote", 1, True),
        ("0 meet, 0 release, 1 look", "wrote", 0, True),
        ("0 meet, 0 release, 1 look", "wrote", 1, False),
        ("0 fence, 0 add, 1 look, 1 meet", "wrote", 1, False),
        ("0 meet, 0 add, 1 look, 1 meet", "wrote", 1, False),
        ("0 meet, 0 release, 1 look other, 1 meet", "wrote", 1, False),
        ("1 look, 0 meet, 0 release, 1 meet", "wrote", 1, False),
        # Two flags, the first too early: who looked where, since when; a third block counts on.
        ("0 release, 0 meet, 0 release other, 2 add, 1 look, 1 meet", "wrote", 1, False),
        ("0 release, 0 meet, 0 release other, 0 look other, 2 add, 1 look", "wrote", 0, False),
        ("0 meet, 2 look other, 0 release other, 2 add, 1 look, 1 meet", "wrote", 1, False),
        ("0 release, 0 meet, 0 release other, 2 add, 1 look other", "wrote", 0, True),
        ("0 meet, 0 release other, 2 look other, 2 add, 1 look, 1 meet", "wrote", 1, True),
        ("0 meet, 0 release, 0 release other, 2 look, 2 add, 1 look", "wrote", 0, True),
        ("0 meet, 0 flag, 1 look, 1 meet", "read", 1, True),
        ("0 meet, 0 flag, 1 look, 1 meet", "wrote", 1, False),
        ("0 flag, 1 look, 1 meet", "read", 1, False),
    ],
)
def test_who_comes_before_whom(steps: str, did: str, warp: int, expected: bool) -> None:
    run = Run()
    for step in steps.split(", "):
        run.do(step)
    assert run.ordered(did, warp) == expected


def test_a_huge_grid_takes_little_memory() -> None:
    order = BlockOrder(Launch("k", Dim3(2**31 - 1), Dim3(1024), 0, b""))
    assert order.times.nbytes + order.pending.nbytes < 2**27
    last, thread, when = block(2**31 - 2), np.array([0], np.uint16), np.array([order.now])
    active, row = np.arange(32)[None, :] == 0, np.zeros(1, np.int64)

    def ordered() -> bool:
        return bool(order.ordered(block(0), thread, when, "wrote", last, block(0))[0])

    order.publish(block(0), active, row, FLAG, releases=True, flags=False)
    assert not ordered()
    order.acquire(last, block(0), FLAG)
    assert ordered()


def test_restart_forgets() -> None:
    run = Run()
    for step in ("0 meet", "0 release", "1 look"):
        run.do(step)
    run.order.restart()
    assert not run.ordered("wrote", 0)
