"""The check between blocks on single accesses, written as PTX: who met whom."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numpy_engine.conftest import Bench

from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import Fault

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
    # A store of what is there already (77), and another's of something else, where the kernel
    # reads nothing and where it does; of what another stored, before that one stores once more.
    ("st.global.u32 [%d0], 77;", False),
    ("@%p0 st.global.u32 [%d0], 77; @%p1 st.global.u32 [%d0], 1;", True),
    ("ld.global.u32 %r4, [%d0+4000]; @%p0 st.global.u32 [%d0], 77; @%p1 st.global.u32 [%d0], 1;",
     True),
    ("ld.global.u32 %r4, [%d0+4000]; st.global.u32 [%d0], 77;", False),
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
    # A fence and a flag that is looked at order the two; one of them alone, or a fence of the
    # block, does not.
    ("@%p0 st.global.u32 [%d0], 9; membar.gl; atom.global.add.u32 %r5, [%d0+64], 1;"
     " add.u32 %r6, %r5, 1; @%p1 ld.global.u32 %r4, [%d0];", False),
    ("@%p0 st.global.u32 [%d0], 9; atom.acq_rel.gpu.global.add.u32 %r5, [%d0+64], 1;"
     " add.u32 %r6, %r5, 1; @%p1 ld.global.u32 %r4, [%d0];", False),
    ("@%p0 st.global.u32 [%d0], 9; membar.gl; red.global.add.u32 [%d0+64], 1;"
     " @%p1 ld.global.u32 %r4, [%d0];", True),
    ("@%p0 st.global.u32 [%d0], 9; membar.gl; atom.global.add.u32 %r5, [%d0+64], 1;"
     " @%p1 ld.global.u32 %r4, [%d0];", True),
    ("@%p0 st.global.u32 [%d0], 9; membar.gl; @%p1 ld.global.u32 %r4, [%d0];", True),
    ("@%p0 st.global.u32 [%d0], 9; membar.cta; red.global.add.u32 [%d0+64], 1;"
     " @%p1 ld.global.u32 %r4, [%d0];", True),
]  # fmt: skip


def require_race(body: str, expected: bool, *words: str) -> None:
    """Four blocks of 64 threads race, and the fault says these words, or they do not."""
    bench = Bench(parse(f"{HEAD}{body} ret; }}"))
    out, given = np.full(1024, 77, np.uint32), np.ones(1024, np.uint32)
    try:
        bench.launch("kernel", 4, 64, out, given, counters=False)
    except Fault as fault:
        assert fault.kind == "race" and all(word in fault.message for word in words)
        assert expected, str(fault)
        return
    assert not expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("@%p0 st.global.u32 [%d3], 9; ld.global.nc.u32 %r4, [%d3];", True),
        ("ld.global.nc.u32 %r4, [%d3]; st.global.u32 [%d3], 9;", False),
        ("st.global.u32 [%d3], 9; ld.global.nc.u32 %r4, [%d1];", False),
    ],
)
def test_non_coherent_loads_of_what_the_launch_stored(body: str, expected: bool) -> None:
    require_race(body, expected, "ld.global.nc")


@pytest.mark.parametrize(("body", "expected"), CASES, ids=range(len(CASES)))
def test_between_blocks(body: str, expected: bool) -> None:
    require_race(body, expected, "between blocks", "the other access: PTX line")


ROLES = (
    ".shared .align 4 .b32 words[4]; .reg .pred %q<9>;"
    " .reg .b32 %v<9>; .reg .b64 %e<9>; setp.eq.u32 %q0, %r0, 0;"
    " and.pred %q1, %p0, %q0; and.pred %q2, %p1, %q0; setp.eq.u32 %q5, %r1, 2;"
    " and.pred %q3, %q5, %q0; mul.wide.u32 %e0, %r0, 4; add.u64 %e0, %d0, %e0;\n"
)
"""%q1, %q2, %q3: the first threads of blocks 0, 1 and 2; %e0: block 0's word of the thread."""
STORE = "@%p0 st.global.u32 [%d3], %r3;"
FENCE = "membar.gl;"
BARRIER = "bar.sync 0;"
PUBLISH = "@%q1 membar.gl; @%q1 red.global.add.u32 [%d1], 1;"
RELEASE = "@%q1 red.release.gpu.global.add.u32 [%d1], 1;"
ADD = "@%q1 red.global.add.u32 [%d1], 1;"
FLAG = "@%q1 st.volatile.global.u32 [%d1], 2;"
WAIT = (
    "@!%q2 bra past; look: ld.volatile.global.u32 %v0, [%d1]; setp.ne.u32 %q4, %v0, 2;"
    " @%q4 bra look; membar.gl; past:"
)
ACQUIRE = WAIT.replace("ld.volatile", "ld.acquire.gpu")
OTHER = WAIT.replace("[%d1]", "[%d1+64]").replace("%v0, 2", "%v0, 1")
CHAIN = f"{WAIT} @%q2 membar.gl; @%q2 red.global.add.u32 [%d1+64], 1; " + WAIT.replace(
    "past", "on"
).replace("look", "wait").replace("%q2", "%q3").replace("1]", "1+64]")
"""Block 1 sees block 0's flag, and block 2 that of block 1."""
READ = "@%p1 ld.global.u32 %v1, [%e0];"
READ_THIRD = "@%q5 ld.global.u32 %v1, [%e0];"
READ_FIRST = "@%p0 ld.global.u32 %v1, [%e0];"
SAME = "@%p0 st.global.u32 [%e0], 77;"
STORE_LATE = "@%p1 st.global.u32 [%e0], %r3;"
SUM = "@%p0 red.global.add.u32 [%d3], 1;"
AGAIN = PUBLISH.replace("[%d1]", "[%d1+64]")
THIRD = PUBLISH.replace("[%d1]", "[%d1+128]")
COUNT = "@%q2 red.global.add.u32 [%d1], 1;"
ELECT = "@%q2 atom.global.add.u32 %v0, [%d1], 1; setp.eq.u32 %q8, %v0, 1;"
ASK = "@%q2 ld.acquire.gpu.global.u32 %v1, [%d1+64]; setp.eq.u32 %q8, %v1, 1;"
ELECT_THIRD = ELECT.replace("%q2", "%q3")
POST = "@%q1 st.relaxed.gpu.global.u32 [%e0], 5;"
LOOK = "@%p1 ld.relaxed.gpu.global.u32 %v1, [%e0];"
CLEAR = "@%q0 st.shared.u32 [words], 0; bar.sync 0;"
LAST_TELLS = (
    "@%p0 atom.shared.add.u32 %v3, [words], 1; setp.eq.and.u32 %q7, %v3, 63, %p0;"
    + PUBLISH.replace("%q1", "%q7")
)
ADD_SHARED = "@%p0 red.shared.add.u32 [words], 1;"
TOLD = (
    "@%q2 st.volatile.shared.u32 [words], 1; @!%p1 bra told; hear: ld.volatile.shared.u32 %v3,"
    " [words]; setp.eq.u32 %q6, %v3, 0; @%q6 bra hear; told:"
)
TAKE = "@%p0 atom.global.add.u32 %v2, [%d3], 1; @%p0 st.global.u32 [%d3+2048], %v2;"
WAIT_THIRD = WAIT.replace("%q2", "%q3")
STORE_THIRD = "@%q5 st.global.u32 [%e0], %r3;"
KEEP = "@%p1 st.global.u32 [%e0+2048], %v1;"
GATHER = f"@%p1 atom.global.add.u32 %v1, [%e0], 0; {KEEP}"
FETCH = f"@%p1 ld.acquire.gpu.global.u32 %v1, [%e0]; {KEEP}"
HIGHEST = SUM.replace("add", "max")
SWAP = "@%p0 atom.global.exch.b32 %v4, [%d3], 5;"
ORDERS = [
    ((STORE, BARRIER, PUBLISH, WAIT, BARRIER, READ), False),
    ((STORE, FENCE, BARRIER, ADD, WAIT, BARRIER, READ), False),
    ((STORE, BARRIER, RELEASE, ACQUIRE, BARRIER, READ), False),
    ((STORE, BARRIER, PUBLISH, CHAIN, BARRIER, READ_THIRD), False),
    ((READ_FIRST, BARRIER, FLAG, WAIT, BARRIER, STORE_LATE), False),
    ((SUM, BARRIER, PUBLISH, WAIT, BARRIER, READ), False),
    ((SUM, BARRIER, PUBLISH, WAIT, BARRIER, STORE_LATE), False),
    ((TAKE, PUBLISH, WAIT, BARRIER, READ), False),
    ((SAME, BARRIER, PUBLISH, WAIT, BARRIER, STORE_LATE), False),
    # A store of what is there already, by warps that the flag says nothing of.
    ((SAME, PUBLISH, WAIT, BARRIER, STORE_LATE), True),
    # Sums that other warps may still add to.
    ((SUM, PUBLISH, WAIT, BARRIER, READ), True),
    ((SUM, PUBLISH, WAIT, BARRIER, STORE_LATE), True),
    ((SUM, BARRIER, PUBLISH, WAIT, READ), True),
    # What atomics changed, read by an atomic that looks at no flag, by an acquire load, plainly.
    *(
        ((change, BARRIER, PUBLISH, WAIT, BARRIER, read), False)
        for change in (SUM, HIGHEST, SWAP)
        for read in (GATHER, FETCH, READ)
    ),
    *(
        ((change, *order, WAIT, BARRIER, read), True)
        for change in (SUM, HIGHEST, SWAP)
        for read in (GATHER, FETCH, READ)
        for order in ((PUBLISH,), (BARRIER, ADD))
    ),
    # Two blocks read, and the third knows of one of them, of both, of none.
    ((READ_FIRST, BARRIER, FLAG, READ, WAIT_THIRD, BARRIER, STORE_THIRD), True),
    ((READ_FIRST, BARRIER, PUBLISH, READ, BARRIER, CHAIN, BARRIER, STORE_THIRD), False),
    # The store comes after the flag; between the flag and the barrier.
    ((PUBLISH, STORE, WAIT, BARRIER, READ), True),
    ((PUBLISH, STORE, BARRIER, WAIT, BARRIER, READ), True),
    # Only the first warp's stores lie before its flag; only the first warp has looked.
    ((STORE, PUBLISH, WAIT, BARRIER, READ), True),
    ((STORE, RELEASE, ACQUIRE, BARRIER, READ), True),
    ((STORE, BARRIER, PUBLISH, WAIT, READ), True),
    ((STORE, BARRIER, PUBLISH, CHAIN, READ_THIRD), True),
    ((READ_FIRST, FLAG, WAIT, BARRIER, STORE_LATE), True),
    ((READ_FIRST, BARRIER, FLAG, WAIT, STORE_LATE), True),
    # Stored with the flag's own order, and read plainly or like it: with a fence between, and none.
    ((POST, FENCE, FLAG, WAIT, READ), False),
    ((POST, FENCE, FLAG, WAIT, LOOK), False),
    ((POST, FLAG, WAIT, READ), True),
    ((POST, FLAG, WAIT, LOOK), True),
    # A counter is told too early, and another one behind the data: who looks at which.
    ((PUBLISH, STORE, BARRIER, AGAIN, ELECT, BARRIER, READ), True),
    ((PUBLISH, STORE, BARRIER, AGAIN, COUNT, ELECT_THIRD, BARRIER, READ_THIRD), True),
    ((PUBLISH, STORE, BARRIER, AGAIN, ASK, ELECT_THIRD, BARRIER, READ_THIRD), True),
    ((STORE, BARRIER, PUBLISH, AGAIN, COUNT, ELECT_THIRD, BARRIER, READ_THIRD), False),
    ((STORE, BARRIER, AGAIN, PUBLISH, COUNT, ELECT_THIRD, BARRIER, READ_THIRD), False),
    ((STORE, BARRIER, PUBLISH, AGAIN, THIRD, COUNT, ELECT_THIRD, BARRIER, READ_THIRD), False),
    ((PUBLISH, STORE, BARRIER, PUBLISH, AGAIN, COUNT, ELECT_THIRD, BARRIER, READ_THIRD), False),
    # Warps that tell each other in shared memory, by atomics or a flag that they look at.
    ((CLEAR, STORE, LAST_TELLS, WAIT, BARRIER, READ), False),
    ((CLEAR, STORE, BARRIER, PUBLISH, WAIT, TOLD, READ), False),
    ((STORE, ADD_SHARED, PUBLISH, WAIT, BARRIER, READ), True),
    # No fence; another flag.
    ((STORE, BARRIER, ADD, WAIT, BARRIER, READ), True),
    ((STORE, BARRIER, PUBLISH, OTHER, BARRIER, READ), True),
]


@pytest.mark.parametrize(("parts", "expected"), ORDERS, ids=range(len(ORDERS)))
def test_flags_order_what_comes_before_and_behind_them(
    parts: tuple[str, ...], expected: bool
) -> None:
    require_race(f"{ROLES}{' '.join(parts)}", expected, "between blocks")
