"""Sums of float32 below the normal numbers: L2 flushes them, shared memory keeps them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numpy_engine.conftest import Bench

from astra_vgpu.ptx.parser import parse

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry kernel(.param .u64 sums, .param .u64 addends)\n{ .reg .b32 %r<9>;"
    " .reg .b64 %d<9>; .reg .f32 %f<4>; .reg .pred %p<2>; .shared .align 16 .b8 room[128];"
    " mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4; ld.param.u64 %d0, [sums];"
    " ld.param.u64 %d1, [addends]; add.u64 %d3, %d0, %d2; add.u64 %d4, %d1, %d2;"
    " ld.global.f32 %f0, [%d4]; ld.global.f32 %f2, [%d3]; mov.u64 %d5, room; add.u64 %d6, %d5, %d2;"
    " cvt.u32.u64 %r1, %d6; mov.u32 %r2, room;\n"
)
"""%d3: the thread's own sum; %f0: its addend; %r1, %d6: its own word of shared memory."""
IN_SHARED = "st.shared.f32 [%r1], %f2; {} ld.shared.f32 %f1, [%r1]; st.global.f32 [%d3], %f1;"
BULK = (
    "st.shared.f32 [%r1], %f0; fence.proxy.async; bar.sync 0; setp.ne.u32 %p0, %r0, 0;"
    " @%p0 bra done; cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%d0], [%r2], 128;"
    " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; done:"
)
TINY, LEAST = np.float32(1e-40), np.finfo(np.float32).tiny
BEFORE = np.array([0, 0, TINY, TINY, -TINY, LEAST, LEAST, -LEAST, 1, np.nan], np.float32)
ADDENDS = np.array([TINY, -TINY, 0, TINY, -1, TINY, -1.5 * LEAST, 3 * LEAST, TINY, 1], np.float32)
FLUSHED = np.array([0, 0, 0, 0, -1, LEAST, -0.0, 2 * LEAST, 1, np.nan], np.float32)


@pytest.mark.parametrize(
    ("body", "keeps"),
    [
        ("red.global.add.f32 [%d3], %f0;", False),
        ("atom.global.add.f32 %f1, [%d3], %f0;", False),
        ("red.add.f32 [%d3], %f0;", False),
        (IN_SHARED.format("red.shared.add.f32 [%r1], %f0;"), True),
        (IN_SHARED.format("atom.shared.add.f32 %f1, [%r1], %f0;"), True),
        (IN_SHARED.format("cvta.shared.u64 %d6, %d6; red.add.f32 [%d6], %f0;"), True),
        (BULK, False),
    ],
)
def test_only_sums_in_global_memory_are_flushed(body: str, keeps: bool) -> None:
    bench = Bench(parse(f"{HEAD}{body} ret; }}"))
    sums, addends = np.zeros((2, 32), np.float32)
    sums[: BEFORE.size], addends[: ADDENDS.size] = BEFORE, ADDENDS
    bench.launch("kernel", 1, 32, sums, addends, counters=False)
    expected = BEFORE + ADDENDS if keeps else FLUSHED
    got = sums[: BEFORE.size]
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got)[:9], np.signbit(expected)[:9])
