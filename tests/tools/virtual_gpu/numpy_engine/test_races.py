"""The race check on single accesses, written as PTX: who met whom, and with which values."""

from __future__ import annotations

import numpy as np
import pytest

from astra_chat.tools.virtual_gpu.ptx import parse
from astra_chat.tools.virtual_gpu.types import Fault
from tests.tools.virtual_gpu.numpy_engine.conftest import Bench

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 tile[2048];\n"
    ".visible .entry kernel(.param .u64 out)\n{ .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<9>;"
    " mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; setp.eq.u32 %p0, %r1, 0;"
    " setp.eq.u32 %p1, %r1, 1; shl.b32 %r2, %r0, 2; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2;\n"
)


def race(body: str, threads: int = 128) -> bool:
    bench = Bench(parse(f"{HEAD}{body} ret; }}"))
    try:
        bench.launch("kernel", 2, threads, np.zeros(1, np.int32), counters=False)
    except Fault as fault:
        assert fault.kind == "race", str(fault)
        return True
    return False


CASES = [
    # Each warp its own words.
    ("st.shared.u32 [%r3], %r0; ld.shared.u32 %r4, [%r3];", False),
    # All read what nobody writes.
    ("ld.shared.u32 %r4, [tile];", False),
    # One writes, another reads: in either order, at any width.
    ("@%p0 st.shared.u32 [tile], 1; @%p1 ld.shared.u32 %r4, [tile];", True),
    ("@%p1 ld.shared.u32 %r4, [tile]; @%p0 st.shared.u32 [tile], 1;", True),
    ("@%p0 st.shared.u32 [tile], 1; @%p1 ld.shared.u8 %r4, [tile+3];", True),
    ("@%p0 st.shared.u32 [tile], 1; @%p1 ld.shared.u8 %r4, [tile+4];", False),
    ("@%p0 st.shared.v2.u32 [tile], {%r1, %r0}; @%p1 ld.shared.u32 %r4, [tile+4];", True),
    ("@%p0 st.shared.u16 [tile], 1; @%p1 st.shared.u16 [tile+2], 2;", False),
    # A barrier in between.
    ("@%p0 st.shared.u32 [tile], 1; bar.sync 0; @%p1 ld.shared.u32 %r4, [tile];", False),
    ("@%p1 ld.shared.u32 %r4, [tile]; bar.sync 0; @%p0 st.shared.u32 [tile], 1;", False),
    # A barrier of a warp is none of the block.
    ("@%p0 st.shared.u32 [tile], 1; bar.warp.sync -1; @%p1 ld.shared.u32 %r4, [tile];", True),
    # Two write: another value, or the same.
    ("@%p0 st.shared.u32 [tile], 1; @%p1 st.shared.u32 [tile], 2;", True),
    ("@%p0 st.shared.u32 [tile], 1; @%p1 st.shared.u32 [tile], 1;", False),
    ("st.shared.u32 [tile], %r1;", True),
    ("st.shared.u32 [tile], 5;", False),
    # In one instruction: what was there, and something else, whichever comes last.
    ("st.shared.u32 [tile], 0; bar.sync 0; st.shared.u32 [tile], %r1;", True),
    ("st.shared.u32 [tile], 3; bar.sync 0; st.shared.u32 [tile], %r1;", True),
    # Rewriting what others read, with the value that is there.
    ("st.shared.u32 [tile], 5; bar.sync 0; ld.shared.u32 %r4, [tile]; "
     "@%p1 st.shared.u32 [tile], 5;", False),
    ("@%p0 st.shared.u32 [tile], 1; @%p1 st.shared.u32 [tile], 1; "
     "@%p0 ld.shared.u32 %r4, [tile];", False),
    # Several warps read at once; each of them may be the one that writes then.
    ("ld.shared.u32 %r4, [tile]; @%p0 st.shared.u32 [tile], 1;", True),
    ("ld.shared.u32 %r4, [tile]; @%p1 st.shared.u32 [tile], 1;", True),
    ("ld.shared.u32 %r4, [tile]; setp.eq.u32 %p2, %r1, 3; @%p2 st.shared.u32 [tile], 1;", True),
    # Atomics and volatile accesses are meant to meet.
    ("atom.shared.add.u32 %r4, [tile], 1;", False),
    ("@%p0 st.volatile.shared.u32 [tile], 1; @%p1 ld.volatile.shared.u32 %r4, [tile];", False),
    # Through generic pointers.
    (".reg .b64 %d<3>; mov.u64 %d0, tile; cvta.shared.u64 %d1, %d0; @%p0 st.u32 [%d1], 1; "
     "@%p1 ld.u32 %r4, [%d1];", True),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), CASES, ids=range(len(CASES)))
def test_between_warps(body: str, expected: bool) -> None:
    assert race(body) == expected


def test_lanes_of_one_warp_do_not_race() -> None:
    assert not race("st.shared.u32 [tile], %r0; ld.shared.u32 %r4, [tile];", threads=32)


def test_blocks_have_shared_memory_of_their_own() -> None:
    assert not race("mov.u32 %r5, %ctaid.x; @%p0 st.shared.u32 [tile], %r5; bar.sync 0;")
    assert race(
        "mov.u32 %r5, %ctaid.x; setp.eq.u32 %p2, %r5, 1; @!%p2 bar.sync 0; "
        "@%p0 st.shared.u32 [tile], %r0; @%p1 ld.shared.u32 %r4, [tile];"
    )
