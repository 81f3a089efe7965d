"""The check between blocks on single accesses, written as PTX: who met whom."""

from __future__ import annotations

import numpy as np
import pytest

from astra_chat.tools.virtual_gpu.ptx.parser import parse
from astra_chat.tools.virtual_gpu.types import Fault
from tests.tools.virtual_gpu.numpy_engine.conftest import Bench

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry kernel(.param .u64 out, .param .u64 in)\n{ .reg .pred %p<4>;"
    " .reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %d<9>; mov.u32 %r0, %tid.x;"
    " mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 64, %r0; ld.param.u64 %d0, [out];"
    " ld.param.u64 %d1, [in]; mul.wide.u32 %d2, %r2, 4; add.u64 %d3, %d0, %d2;"
    " setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r1, 1; add.u32 %r3, %r2, 7;\n"
)
"""%d0: out; %d3: the thread's own word of it; %p0, %p1: blocks 0 and 1; %r3: 7 and more."""
CASES = [
    # Rows of words, once, twice, from the last row to the first; pairs of words; halves of words.
    ("st.global.u32 [%d3], %r3;", False),
    ("st.global.u32 [%d3], %r3; st.global.u32 [%d3], %r0;", False),
    ("sub.u32 %r4, 3, %r1; mad.lo.u32 %r4, %r4, 64, %r0; mul.wide.u32 %d4, %r4, 4;"
     " add.u64 %d4, %d0, %d4; st.global.u32 [%d4], %r3;", False),
    ("add.u64 %d4, %d3, %d2; st.global.v2.u32 [%d4], {%r3, %r3};", False),
    ("cvt.u16.u32 %h0, %r3; mad.lo.u32 %r4, %r0, 4, %r1; mul.wide.u32 %d4, %r4, 2;"
     " add.u64 %d4, %d0, %d4; st.global.u16 [%d4], %h0;", False),
    # One row over another: shifted by a word, all at one place, one block after the other.
    ("mad.lo.u32 %r4, %r1, 63, %r0; mul.wide.u32 %d4, %r4, 4; add.u64 %d4, %d0, %d4;"
     " st.global.u32 [%d4], %r3;", True),
    ("st.global.u32 [%d0], %r3;", True),
    ("@%p0 st.global.u32 [%d0], 1; @%p1 st.global.u32 [%d0], 2;", True),
    ("@%p0 st.global.u32 [%d0], 1; @%p1 st.global.u32 [%d0], 1;", False),
    ("st.global.u32 [%d0], 5;", False),
    # A store and a load, in either order, at other widths, of one address for all lanes.
    ("@%p0 st.global.u32 [%d0], 1; @%p1 ld.global.u32 %r4, [%d0];", True),
    ("@%p1 ld.global.u32 %r4, [%d0]; @%p0 st.global.u32 [%d0], 1;", True),
    ("@%p0 st.global.u32 [%d0], 1; @%p1 ld.global.u8 %r4, [%d0+3];", True),
    ("@%p0 st.global.u32 [%d0], 1; @%p1 ld.global.u8 %r4, [%d0+4];", False),
    ("ld.global.u32 %r4, [%d0]; @%p0 st.global.u32 [%d0], 1;", True),
    ("ld.global.u32 %r4, [%d3]; add.u32 %r4, %r4, 1; st.global.u32 [%d3], %r4;", False),
    ("ld.global.u32 %r4, [%d1]; st.global.u32 [%d3], %r4;", False),
    # Atomics; a plain store that others add to.
    ("red.global.add.u32 [%d0], 1;", False),
    # Volatile and relaxed accesses, and the same where a loop looks at them.
    ("st.volatile.global.u32 [%d0], %r3;", True),
    ("@%p0 st.relaxed.gpu.global.u32 [%d0], 1; @%p1 ld.relaxed.gpu.global.u32 %r4, [%d0];", True),
    ("st.volatile.global.u32 [%d3], %r3; ld.volatile.global.u32 %r4, [%d3];", False),
    ("st.volatile.global.u32 [%d0], %r3; look: ld.volatile.global.u32 %r4, [%d0];"
     " setp.eq.u32 %p2, %r4, 0; @%p2 bra look;", False),
    ("@%p0 st.global.u32 [%d0], 9; bar.sync 0; red.global.add.u32 [%d0], 1;", True),
    # A fence and a flag order the two; one of them alone, or a fence of the block, does not.
    ("@%p0 st.global.u32 [%d0], 9; membar.gl; red.global.add.u32 [%d0+64], 1;"
     " @%p1 ld.global.u32 %r4, [%d0];", False),
    ("@%p0 st.global.u32 [%d0], 9; red.release.gpu.global.add.u32 [%d0+64], 1;"
     " @%p1 ld.global.u32 %r4, [%d0];", False),
    ("@%p0 st.global.u32 [%d0], 9; membar.gl; @%p1 ld.global.u32 %r4, [%d0];", True),
    ("@%p0 st.global.u32 [%d0], 9; membar.cta; red.global.add.u32 [%d0+64], 1;"
     " @%p1 ld.global.u32 %r4, [%d0];", True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("@%p0 st.global.u32 [%d3], 9; ld.global.nc.u32 %r4, [%d3];", True),
        ("ld.global.nc.u32 %r4, [%d3]; st.global.u32 [%d3], 9;", False),
        ("st.global.u32 [%d3], 9; ld.global.nc.u32 %r4, [%d1];", False),
    ],
)
def test_non_coherent_loads_of_what_the_launch_stored(body: str, expected: bool) -> None:
    bench = Bench(parse(f"{HEAD}{body} ret; }}"))
    out, given = np.full(1024, 77, np.uint32), np.ones(1024, np.uint32)
    try:
        bench.launch("kernel", 4, 64, out, given, counters=False)
    except Fault as fault:
        assert fault.kind == "race" and "ld.global.nc" in fault.message
        assert expected, str(fault)
        return
    assert not expected


@pytest.mark.parametrize(("body", "expected"), CASES, ids=range(len(CASES)))
def test_between_blocks(body: str, expected: bool) -> None:
    bench = Bench(parse(f"{HEAD}{body} ret; }}"))
    out, given = np.full(1024, 77, np.uint32), np.ones(1024, np.uint32)
    try:
        bench.launch("kernel", 4, 64, out, given, counters=False)
    except Fault as fault:
        assert fault.kind == "race" and "between blocks" in fault.message
        assert "the other access: PTX line" in fault.message
        assert expected, str(fault)
        return
    assert not expected
