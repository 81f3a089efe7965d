"""The race check on single accesses, written as PTX: who met whom, and with which values."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from tests.numpy_engine.conftest import Bench

from astra_vgpu import c_engine, numpy_engine
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import Dim3, Fault, Launch

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
    (
        "st.shared.u32 [tile], 5; bar.sync 0; ld.shared.u32 %r4, [tile]; "
        "@%p1 st.shared.u32 [tile], 5;",
        False,
    ),
    (
        "@%p0 st.shared.u32 [tile], 1; @%p1 st.shared.u32 [tile], 1; "
        "@%p0 ld.shared.u32 %r4, [tile];",
        False,
    ),
    # What is there, and another warp's other value, with and without a barrier in between.
    (
        "st.shared.u32 [tile], 5; bar.sync 0; @%p1 st.shared.u32 [tile], 5; "
        "@%p0 st.shared.u32 [tile], 1;",
        True,
    ),
    (
        "st.shared.u32 [tile], 5; bar.sync 0; @%p1 st.shared.u32 [tile], 5; bar.sync 0; "
        "@%p0 st.shared.u32 [tile], 1;",
        False,
    ),
    # Several warps read at once; each of them may be the one that writes then.
    ("ld.shared.u32 %r4, [tile]; @%p0 st.shared.u32 [tile], 1;", True),
    ("ld.shared.u32 %r4, [tile]; @%p1 st.shared.u32 [tile], 1;", True),
    ("ld.shared.u32 %r4, [tile]; setp.eq.u32 %p2, %r1, 3; @%p2 st.shared.u32 [tile], 1;", True),
    # Atomics are meant to meet; volatile accesses where a loop looks at them.
    ("atom.shared.add.u32 %r4, [tile], 1;", False),
    ("@%p0 st.volatile.shared.u32 [tile], 1; @%p1 ld.volatile.shared.u32 %r4, [tile];", True),
    (
        "@%p0 st.volatile.shared.u32 [tile], 1; look: @%p1 ld.volatile.shared.u32 %r4, [tile];"
        " setp.lt.u32 %p3, %r4, 0; @%p3 bra look;",
        False,
    ),
    # Through generic pointers.
    (
        ".reg .b64 %d<3>; mov.u64 %d0, tile; cvta.shared.u64 %d1, %d0; @%p0 st.u32 [%d1], 1; "
        "@%p1 ld.u32 %r4, [%d1];",
        True,
    ),
]


@pytest.mark.parametrize(("body", "expected"), CASES, ids=range(len(CASES)))
def test_between_warps(body: str, expected: bool) -> None:
    assert race(body) == expected


ADD = "atom.shared.add.u32 %r4, [tile], "
ATOMICS = [
    # A store or a read of another warp, and no barrier between, in either order.
    (f"@%p0 st.shared.u32 [tile], 0; @%p1 {ADD} 1;", True),
    (f"@%p0 st.shared.u32 [tile], 0; bar.sync 0; @%p1 {ADD} 1;", False),
    (f"st.shared.u32 [tile], 0; bar.sync 0; @%p0 {ADD} 1; @%p1 ld.shared.u32 %r5, [tile];", True),
    (f"st.shared.u32 [tile], 0; bar.sync 0; @%p1 ld.shared.u32 %r5, [tile]; @%p0 {ADD} 1;", True),
    (f"st.shared.u32 [tile], 0; bar.sync 0; @%p0 {ADD} 1; @%p1 st.shared.u32 [tile], 7;", True),
    (f"st.shared.u32 [tile], 0; bar.sync 0; {ADD} 1; bar.sync 0; ld.shared.u32 %r5, [tile];"
     " bar.sync 0; st.shared.u32 [tile], 0;", False),
    # Bytes of a word; elsewhere.
    (f"st.shared.u32 [tile], 0; bar.sync 0; @%p0 {ADD} 1; @%p1 ld.shared.u8 %r5, [tile+3];", True),
    (f"st.shared.u32 [tile], 0; bar.sync 0; @%p0 {ADD} 1; @%p1 ld.shared.u8 %r5, [tile+4];", False),
    # What changes nothing is as good as none.
    (f"st.shared.u32 [tile], 0; bar.sync 0; @%p0 {ADD} 0; @%p1 ld.shared.u32 %r5, [tile];", False),
    # Within a warp.
    (f"setp.eq.u32 %p2, %r0, 3; @%p2 st.shared.u32 [tile], 0; @%p0 {ADD} 1;", True),
    (f"@%p0 st.shared.u32 [tile], 0; bar.warp.sync -1; @%p0 {ADD} 1;", False),
    (f"@%p0 st.shared.u32 [tile], 0; bar.warp.sync -1; @%p0 {ADD} 1; @%p0 ld.shared.u32 %r5,"
     " [tile];", True),
    (f"@%p0 st.shared.u32 [tile], 0; bar.warp.sync -1; @%p0 {ADD} 1; bar.warp.sync -1;"
     " @%p0 ld.shared.u32 %r5, [tile];", False),
    # A lane and what it did itself.
    (f"setp.eq.u32 %p2, %r0, 3; @%p2 st.shared.u32 [tile], 0; @%p2 {ADD} 1;"
     " @%p2 ld.shared.u32 %r5, [tile]; @%p2 st.shared.u32 [tile], 0;", False),
    # Through a generic pointer.
    (".reg .b64 %d<3>; mov.u64 %d0, tile; cvta.shared.u64 %d1, %d0; st.shared.u32 [tile], 0;"
     " bar.sync 0; @%p0 atom.add.u32 %r4, [%d1], 1; @%p1 ld.shared.u32 %r5, [tile];", True),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), ATOMICS, ids=range(len(ATOMICS)))
@pytest.mark.parametrize("engine", [numpy_engine, c_engine])
def test_atomics_and_other_accesses(engine: ModuleType, body: str, expected: bool) -> None:
    module = parse(f"{HEAD}{body} ret; }}")
    memory = Memory()
    launch = Launch("kernel", Dim3(2), Dim3(128), 0, bytes(8))
    try:
        engine.run(engine.translate(module, "kernel"), launch, memory)
    except Fault as fault:
        assert expected and fault.kind == "race", str(fault)
    else:
        assert not expected


WITHIN = [
    # In one instruction: different values for one place, or the same.
    ("st.shared.u32 [tile], %r0;", True),
    ("st.shared.u32 [tile], 7;", False),
    ("st.shared.u32 [tile], 31; bar.warp.sync -1; st.shared.u32 [tile], %r0;", True),
    ("st.shared.u32 [tile], 0; bar.warp.sync -1; st.shared.u32 [tile], %r0;", True),
    # Each lane its own, twice, and those of others; with and without a meeting.
    ("st.shared.u32 [%r3], %r0; ld.shared.u32 %r4, [%r3]; st.shared.u32 [%r3], %r4;", False),
    ("st.shared.u32 [%r3], %r0; ld.shared.u32 %r4, [%r5];", True),
    ("st.shared.u32 [%r3], %r0; bar.warp.sync -1; ld.shared.u32 %r4, [%r5];", False),
    (
        "st.shared.u32 [%r3], %r0; shfl.sync.idx.b32 %r4, %r0, 0, 31, -1; "
        "ld.shared.u32 %r4, [%r5];",
        False,
    ),
    (
        "st.shared.u32 [%r3], %r0; vote.sync.ballot.b32 %r4, %p0, -1; ld.shared.u32 %r4, [%r5];",
        False,
    ),
    ("st.shared.u32 [%r3], %r0; membar.cta; ld.shared.u32 %r4, [%r5];", True),
    ("st.shared.u32 [%r3], %r0; bar.sync 0; ld.shared.u32 %r4, [%r5];", False),
    # A read, then a write by another lane; by one of many that read.
    ("ld.shared.u32 %r4, [%r5]; st.shared.u32 [%r3], %r0;", True),
    ("ld.shared.u32 %r4, [%r5]; bar.warp.sync -1; st.shared.u32 [%r3], %r0;", False),
    ("ld.shared.u32 %r4, [tile]; @%p2 st.shared.u32 [tile], 1;", True),
    ("ld.shared.u32 %r4, [tile]; bar.warp.sync -1; @%p2 st.shared.u32 [tile], 1;", False),
    ("@%p2 st.shared.u32 [tile], 1; @%p2 ld.shared.u32 %r4, [tile];", False),
    # All wrote the same value: each may read its own. Storing what is there changes nothing.
    ("st.shared.u32 [tile], 5; ld.shared.u32 %r4, [tile];", False),
    (
        "st.shared.u32 [tile], 5; bar.warp.sync -1; ld.shared.u32 %r4, [tile]; "
        "@%p2 st.shared.u32 [tile], 5;",
        False,
    ),
    (
        "st.shared.u32 [tile], 5; bar.sync 0; st.shared.u32 [tile], 5; "
        "@%p2 st.shared.u32 [tile], 6;",
        True,
    ),
    # Branches that meet again order nothing.
    ("@%p2 bra there; st.shared.u32 [%r3], 1; there: @%p2 ld.shared.u32 %r4, [tile+8];", True),
    # Several bytes of one word; volatile and atomic accesses.
    (
        "cvt.u16.u32 %h0, %r0; mov.u32 %r3, tile; add.u32 %r3, %r3, %r0; st.shared.u8 [%r3], %h0; "
        "ld.shared.u8 %h1, [%r3];",
        False,
    ),
    ("st.volatile.shared.u32 [%r3], %r0; ld.volatile.shared.u32 %r4, [%r5];", True),
    ("atom.shared.add.u32 %r4, [tile], 1;", False),
]
NEIGHBOUR = (
    "xor.b32 %r5, %r0, 1; shl.b32 %r5, %r5, 2; mov.u32 %r6, tile; add.u32 %r5, %r5, %r6; "
    "setp.eq.u32 %p2, %r0, 3; "
)


@pytest.mark.parametrize(("body", "expected"), WITHIN, ids=range(len(WITHIN)))
def test_within_a_warp(body: str, expected: bool) -> None:
    assert race(NEIGHBOUR + body, threads=32) == expected


NANS = (
    "mov.b32 %r4, 0f7F800000; sub.f32 %r5, %r4, %r4; mov.b32 %r6, 0f7FC00123; "
    "and.b32 %r8, %r0, 1; setp.eq.u32 %p2, %r8, 1; selp.b32 %r6, %r5, %r6, %p2; "
)
"""A NaN of inf - inf in odd threads, another one in the others."""
FLOATS = [
    # A GPU's sum of either is one and the same; PTX's type of the store does not matter.
    (f"{NANS} add.f32 %r7, %r6, 0f3F800000; st.shared.b32 [tile], %r7;", False),
    (f"{NANS} add.f32 %r7, %r6, 0f3F800000; st.shared.u32 [tile], %r7;", False),
    (f"{NANS} add.f32 %r7, %r6, 0f3F800000; mov.b32 %r5, %r7; st.shared.f32 [tile], %r5;", False),
    (f"{NANS} add.f32 %r7, %r6, 0f3F800000; st.shared.v2.b32 [tile], {{%r7, %r7}};", False),
    (
        f"{NANS} add.f32 %r7, %r6, 0f3F800000; @%p0 st.shared.b32 [tile], %r7; "
        "@%p1 st.shared.b32 [tile], %r7;",
        False,
    ),
    # What only looks like a NaN; a NaN and a number; numbers.
    (f"{NANS} add.s32 %r7, %r6, 1; st.shared.b32 [tile], %r7;", True),
    (
        f"{NANS} selp.b32 %r6, 0f3F800000, %r6, %p2; add.f32 %r7, %r6, 0f3F800000; "
        "st.shared.b32 [tile], %r7;",
        True,
    ),
    ("cvt.rn.f32.u32 %r7, %r0; st.shared.b32 [tile], %r7;", True),
    (
        f"{NANS} add.f32 %r7, %r6, 0f3F800000; cvt.rn.f32.u32 %r5, %r0; "
        "st.shared.v2.b32 [tile], {%r7, %r5};",
        True,
    ),
]


@pytest.mark.parametrize(("body", "expected"), FLOATS, ids=range(len(FLOATS)))
def test_nans_that_lanes_computed_are_alike(body: str, expected: bool) -> None:
    assert race(body, threads=64) == expected


def test_both_sides_are_named() -> None:
    bench = Bench(
        parse(f"{HEAD}{NEIGHBOUR}st.shared.u32 [%r3], %r0;\nld.shared.u32 %r4, [%r5]; ret; }}")
    )
    with pytest.raises(Fault) as within:
        bench.launch("kernel", 2, 32, np.zeros(1, np.int32), counters=False)
    for part in (
        "a lane of warp 0 reads 4 bytes that another lane of it wrote",
        "no __syncwarp() lies between; the other access: PTX line 7, "
        "thread (1, 0, 0) of the same kernel and block, shared offset 4",
    ):
        assert part in str(within.value)
    assert "block (0, 0, 0), thread (0, 0, 0), PTX line 8" in within.value.where
    for write, missing in (
        ("[%r3]", "no __syncthreads(), or __syncwarp() if no other warp uses these bytes, lies"),
        (
            "[%r3+4]",
            "warp 1 reads 4 bytes that warp 0 wrote since the last barrier, and no __syncthr",
        ),
    ):
        body = f"{NEIGHBOUR}st.shared.u32 {write}, %r0; ld.shared.u32 %r4, [%r5];"
        with pytest.raises(Fault) as among_warps:
            Bench(parse(f"{HEAD}{body} ret; }}")).launch(
                "kernel", 2, 64, np.zeros(1, np.int32), counters=False
            )
        assert missing in among_warps.value.message
    bench = Bench(
        parse(f"{HEAD}@%p1 st.shared.u32 [tile], 1;\n@%p0 ld.shared.u32 %r4, [tile]; ret; }}")
    )
    with pytest.raises(Fault, match=r"PTX line 7, thread \(\d+, 0, 0\) of the same"):
        bench.launch("kernel", 2, 64, np.zeros(1, np.int32), counters=False)


def test_blocks_have_shared_memory_of_their_own() -> None:
    assert not race("mov.u32 %r5, %ctaid.x; @%p0 st.shared.u32 [tile], %r5; bar.sync 0;")
    assert race(
        "mov.u32 %r5, %ctaid.x; setp.eq.u32 %p2, %r5, 1; @!%p2 bar.sync 0; "
        "@%p0 st.shared.u32 [tile], %r0; @%p1 ld.shared.u32 %r4, [tile];"
    )
