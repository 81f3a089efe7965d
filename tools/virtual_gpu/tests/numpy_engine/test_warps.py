"""What lanes of a warp tell each other, where some of them are not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.numpy_engine.conftest import Bench

from astra_vgpu.ptx.parser import parse

KERNEL = """.version 9.0\n.target sm_90\n.address_size 64
.visible .entry lanes(.param .u64 out) {{
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd0, %rd1;
mov.u32 %r1, %r0; setp.ge.u32 %p0, %r0, 16; @%p0 bra $end;
shfl.sync.{} %r1|%p1, %r0, {}, 31, 0xffff;
$end: st.global.u32 [%rd1], %r1; ret; }}"""


@pytest.mark.parametrize(
    ("how", "lane", "found"),
    [
        ("idx.b32", 3, [3] * 16),
        ("down.b32", 4, [*range(4, 16), *[-1] * 4]),
        ("idx.b32", 20, [-1] * 16),
        ("bfly.b32", 16, [-1] * 16),
        ("up.b32", 4, [0, 1, 2, 3, *range(12)]),
    ],
)
@pytest.mark.parametrize("threads", [32, 16])
def test_a_lane_that_is_not_here_has_no_value(
    aligned: Any, how: str, lane: int, found: list[int], threads: int
) -> None:
    """PTX leaves it open, an old value would look right: it is a NaN, and a warning says whose."""
    out = aligned(np.zeros(threads, np.int32))
    clamp = KERNEL.replace("31, 0xffff", "0, 0xffff") if how == "up.b32" else KERNEL
    report = Bench(parse(clamp.format(how, lane))).launch("lanes", 1, threads, out)
    assert list(out) == found + list(range(16, threads))
    said = [(one.what, one.thread) for one in report.uninitialized]
    first = found.index(-1) if -1 in found else 0
    of = {"idx.b32": lane, "down.b32": first + lane, "bfly.b32": first ^ lane, "up.b32": 0}[how]
    what = f"at lane {of} of the warp, which does not take part in this shuffle"
    expected = [(f"uninitialized read of 4 bytes {what}", f"({first}, 0, 0)")]
    assert said == (expected if -1 in found else [])
    assert all(
        "let every lane that is read take part" in one.advice for one in report.uninitialized
    )


LOOP = """.version 9.0\n.target sm_90\n.address_size 64
.visible .entry rounds(.param .u64 out) {
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd0, %rd1;
mov.u32 %r1, %r0; mov.u32 %r3, 0;
$round: shfl.sync.bfly.b32 %r2|%p1, %r1, 1, 31, -1; max.u32 %r1, %r1, %r2;
add.u32 %r3, %r3, 1; setp.eq.u32 %p2, %r3, 4; @%p2 bra $end;
setp.ne.u32 %p3, %r0, %r3; @%p3 bra $round;
mov.u32 %r1, 100; bra.uni $round;
$end: st.global.u32 [%rd1], %r1; ret; }"""


def test_a_lane_that_comes_back_another_way_is_waited_for(aligned: Any) -> None:
    """The loop has two back edges, as nvcc writes one that ends in an if."""
    out = aligned(np.zeros(32, np.int32))
    Bench(parse(LOOP)).launch("rounds", 1, 32, out)
    assert list(out) == [100] * 4 + [lane | 1 for lane in range(4, 32)]
