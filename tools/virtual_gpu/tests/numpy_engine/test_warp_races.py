"""The check between threads of a block on global memory, on single accesses written as PTX."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numpy_engine.conftest import Bench

from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import Fault

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry kernel(.param .u64 out, .param .u64 in)\n{ .reg .pred %p<6>;"
    " .reg .b16 %h<4>; .reg .b32 %r<12>; .reg .b64 %d<9>; mov.u32 %r0, %tid.x;"
    " mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 64, %r0; ld.param.u64 %d0, [out];"
    " ld.param.u64 %d1, [in]; mul.wide.u32 %d2, %r2, 4; add.u64 %d3, %d0, %d2;"
    " shr.u32 %r3, %r0, 5; setp.eq.u32 %p0, %r3, 0; setp.eq.u32 %p1, %r3, 1;"
    " xor.b32 %r4, %r2, 32; mul.wide.u32 %d4, %r4, 4; add.u64 %d4, %d0, %d4;"
    " xor.b32 %r5, %r2, 1; mul.wide.u32 %d5, %r5, 4; add.u64 %d5, %d0, %d5;"
    " mul.wide.u32 %d6, %r1, 256; add.u64 %d6, %d0, %d6; add.u32 %r6, %r2, 7;"
    " setp.eq.u32 %p2, %r0, 0; setp.eq.u32 %p3, %r0, 32;\n"
)
"""%d3: the thread's own word of out; %d4: its partner's in the other warp; %d5: its neighbour's in
the same warp; %d6: the first word of its block's; %p0, %p1: warps 0 and 1; %p2, %p3: their first
lanes; %r6: 7 and more."""
SYNC = "bar.warp.sync 0xffffffff;"
CASES = [
    # Each thread its own word, once or more often, also at other widths.
    ("ld.global.u32 %r7, [%d3]; add.u32 %r7, %r7, 1; st.global.u32 [%d3], %r7;", False),
    ("ld.global.u8 %r7, [%d3]; st.global.u32 [%d3], %r6; ld.global.u16 %r8, [%d3+2];", False),
    # A partner's word: read and then overwritten by another warp, with a barrier between or none.
    ("ld.global.u32 %r7, [%d4]; add.u32 %r7, %r7, 1; st.global.u32 [%d3], %r7;", True),
    ("ld.global.u32 %r7, [%d4]; bar.sync 0; add.u32 %r7, %r7, 1; st.global.u32 [%d3], %r7;",
     False),
    ("ld.global.u32 %r7, [%d4]; bar.sync 0; st.global.u32 [%d3], %r6; ld.global.u32 %r7, [%d4];",
     True),
    ("st.global.u32 [%d3], %r6; bar.sync 0; ld.global.u32 %r7, [%d4];", False),
    ("st.global.u32 [%d3], %r6; membar.gl; ld.global.u32 %r7, [%d4];", True),
    ("st.global.u32 [%d3], %r6; bar.warp.sync 0xffffffff; ld.global.u32 %r7, [%d4];", True),
    # Named barriers, also where one side does not wait.
    ("@%p0 st.global.u32 [%d3], %r6; bar.sync 3, 64; @%p1 ld.global.u32 %r7, [%d4];", False),
    ("@%p0 st.global.u32 [%d3], %r6; @%p0 bra tell; bar.sync 3, 64; ld.global.u32 %r7, [%d4];"
     " ret; tell: bar.arrive 3, 64;", False),
    # The narrowest access counts: parts of a word.
    ("st.global.u8 [%d3+1], %r6; ld.global.u8 %r7, [%d4];", False),
    ("st.global.u8 [%d3+1], %r6; ld.global.u16 %r7, [%d4];", True),
    # Both write: another value, the same, or what was there.
    ("ld.global.u32 %r7, [%d3]; st.global.u32 [%d6], %r0;", True),
    ("ld.global.u32 %r7, [%d3+4]; bar.sync 0; st.global.u32 [%d6], 5;", False),
    ("ld.global.u32 %r7, [%d4]; st.global.u32 [%d3], 77;", False),
    # A store that a later one of the same thread undoes; one of what is there beside another's.
    ("ld.global.u32 %r7, [%d4]; st.global.u32 [%d3], 5; membar.gl; st.global.u32 [%d3], 77;", True),
    ("st.global.u32 [%d3], 5; membar.gl; st.global.u32 [%d3], 77; ld.global.u32 %r7, [%d4];", True),
    ("ld.global.u32 %r7, [%d3]; st.global.u32 [%d4], 77; @%p1 st.global.u32 [%d3], 5;", True),
    ("ld.global.u32 %r7, [%d3]; @%p1 st.global.u32 [%d3], 5; @%p0 st.global.u32 [%d4], 77;", True),
    ("ld.global.u32 %r7, [%d3]; st.global.u32 [%d4], 77; bar.sync 0; st.global.u32 [%d3], 5;",
     False),
    ("ld.global.u32 %r7, [%d3]; st.global.u32 [%d3], 77; st.global.u32 [%d3], %r6;", False),
    ("ld.global.u32 %r7, [%d3]; bar.sync 0; st.global.u32 [%d3], 5; @%p1 st.global.u32 [%d4], 5;",
     False),
    ("ld.global.u32 %r7, [%d5]; st.global.u32 [%d5], 77; st.global.u32 [%d3], %r6;", True),
    # Lanes of one warp: as on shared memory.
    ("ld.global.u32 %r7, [%d5]; st.global.u32 [%d3], %r6;", True),
    (f"ld.global.u32 %r7, [%d5]; {SYNC} st.global.u32 [%d3], %r6;", False),
    (f"st.global.u32 [%d3], %r6; {SYNC} ld.global.u32 %r7, [%d5];", False),
    # One address for all; a buffer that is only read, or only written.
    ("ld.global.u32 %r7, [%d6]; @%p3 st.global.u32 [%d6], 5;", True),
    ("ld.global.u32 %r7, [%d6]; @%p2 st.global.u32 [%d6], 5;", True),
    ("ld.global.u32 %r7, [%d1]; st.global.u32 [%d3], %r7;", False),
    ("st.global.u32 [%d3], %r6;", False),
    # Atomics race with plain accesses, not with one another.
    ("red.global.add.u32 [%d6], 1; ld.global.u32 %r7, [%d6+128];", False),
    ("@%p0 red.global.add.u32 [%d6], 1; @%p1 ld.global.u32 %r7, [%d6];", True),
    ("@%p0 red.global.add.u32 [%d6], 1; bar.sync 0; @%p1 ld.global.u32 %r7, [%d6];", False),
    ("@%p2 st.global.u32 [%d6], 5; red.global.add.u32 [%d6], 1; ld.global.u32 %r7, [%d3+128];",
     True),
    # A flag that the other warp looks at; one that it does not look at, or another.
    ("@%p0 st.global.u32 [%d6+8], %r3; @%p2 st.global.u32 [%d6+8], 9; membar.gl;"
     " @%p2 st.release.gpu.global.u32 [%d6+128], 1; @%p0 bra over;"
     " look: ld.acquire.gpu.global.u32 %r7, [%d6+128]; setp.ne.u32 %p4, %r7, 1; @%p4 bra look;"
     " ld.global.u32 %r8, [%d6+8]; over:", False),
    ("@%p2 st.global.u32 [%d6+8], 9; membar.gl;"
     " @%p2 st.release.gpu.global.u32 [%d6+128], 1; @%p0 bra over;"
     " ld.global.u32 %r8, [%d6+8]; over:", True),
    ("@%p2 st.global.u32 [%d6+8], 9; membar.gl;"
     " atom.global.add.u32 %r7, [%d6+128], 1; add.u32 %r8, %r7, 1; st.global.u32 [%d1], %r8;"
     " @%p1 ld.global.u32 %r8, [%d6+8];", False),
]  # fmt: skip


def launch(body: str, blocks: int, *words: str, expected: bool) -> None:
    """Blocks of 64 threads race, and the fault says these words, or they do not."""
    bench = Bench(parse(f"{HEAD}{body} ret; }}"))
    out, given = np.full(1024, 77, np.uint32), np.full(64, 78, np.uint32)
    try:
        bench.launch("kernel", blocks, 64, out, given, counters=False)
    except Fault as fault:
        assert expected, str(fault)
        assert fault.kind == "race" and all(word in fault.message for word in words), str(fault)
        return
    assert not expected


@pytest.mark.parametrize(("body", "race"), CASES)
def test_who_races(body: str, race: bool) -> None:
    launch(body, 1, expected=race)


IN_PLACE = "ld.global.u32 %r7, [%d4];\nadd.u32 %r7, %r7, 1;\nst.global.u32 [%d3], %r7;"


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_race_names_both_threads_and_the_argument(blocks: int) -> None:
    launch(
        IN_PLACE,
        blocks,
        "race between threads of a block on global memory: warp ",
        "s 4 bytes that warp ",
        " since the last barrier, and no __syncthreads() lies between; the other access: PTX line ",
        ", thread (",
        "of the same kernel and block, offset ",
        "of argument 0 ",
        expected=True,
    )


def test_each_block_is_looked_at_by_itself() -> None:
    """Only the last of several batches races."""
    late = "setp.eq.u32 %p5, %r1, 2; @!%p5 bra over; " + IN_PLACE + " over:"
    launch(late, 2, expected=False)
    launch(late, 3, expected=True)


def test_blocks_that_take_turns_at_one_place_do_not_race() -> None:
    """A lock orders blocks; within each, a barrier."""
    body = (
        "@!%p2 bra inside; take: atom.global.cas.b32 %r7, [%d0+1024], 77, 1;"
        " setp.ne.u32 %p4, %r7, 77;"
        " @%p4 bra take; membar.gl; inside: bar.sync 0; mul.wide.u32 %d7, %r0, 4;"
        " add.u64 %d7, %d0, %d7;"
        " ld.global.u32 %r8, [%d7]; add.u32 %r8, %r8, 1; st.global.u32 [%d7], %r8; bar.sync 0;"
        " @!%p2 bra done; membar.gl; atom.global.exch.b32 %r7, [%d0+1024], 77; done:"
    )
    launch(body, 3, expected=False)


def test_the_switch_of_the_checks_of_global_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTRA_BLOCK_RACES", "off")
    launch("ld.global.u32 %r7, [%d4]; st.global.u32 [%d3], %r6;", 1, expected=False)
