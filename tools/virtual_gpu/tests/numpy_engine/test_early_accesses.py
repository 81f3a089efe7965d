"""What threads touch before they have waited for the work ahead of a programmatic launch."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numpy_engine.conftest import Bench, at_256

from astra_vgpu.memory import early_accesses
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import Fault

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry kernel(.param .u64 out, .param .u64 weights)\n{ .reg .pred %p<6>;"
    " .reg .b32 %r<12>; .reg .b64 %d<9>; .shared .align 128 .b8 tile[512];"
    " mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; ld.param.u64 %d1, [weights];"
    " mul.wide.u32 %d2, %r0, 4; add.u64 %d3, %d0, %d2; add.u64 %d4, %d1, %d2;"
    " setp.lt.u32 %p0, %r0, 32; setp.eq.u32 %p1, %r0, 0; mov.u32 %r2, tile;"
    " add.u32 %r3, %r2, 256;\n"
)
"""%d3, %d4: the thread's own words of out and of the weights; %p0: warp 0; %p1: thread 0."""
WAIT = "griddepcontrol.wait;"
CASES = [
    (f"{WAIT} ld.global.u32 %r1, [%d3]; st.global.u32 [%d3], %r1;", False),
    (f"ld.global.u32 %r1, [%d3]; {WAIT} st.global.u32 [%d3], %r1;", True),
    (f"st.global.u32 [%d3], 1; {WAIT}", True),
    (f"red.global.add.u32 [%d3], 1; {WAIT}", True),
    (f"cp.async.ca.shared.global [tile], [%d3], 4; {WAIT}", True),
    (f"ld.u32 %r1, [%d3]; {WAIT}", True),
    # What is the same in every call may be read, not written.
    (f"ld.global.u32 %r1, [%d4]; {WAIT} st.global.u32 [%d3], %r1;", False),
    (f"st.global.u32 [%d4], 1; {WAIT}", True),
    # Other memory, prefetches.
    (f"st.shared.u32 [tile], 1; prefetch.global.L2 [%d3]; {WAIT}", False),
    # Each thread has to wait by itself: not one warp, not one thread, a barrier or none.
    (f"@%p0 {WAIT} ld.global.u32 %r1, [%d3];", True),
    (f"@!%p0 bra on; {WAIT} on: ld.global.u32 %r1, [%d3];", True),
    (f"@!%p1 bra on; {WAIT} on: bar.sync 0; ld.global.u32 %r1, [%d3];", True),
    (f"@%p0 {WAIT} @%p0 ld.global.u32 %r1, [%d3];", False),
    (f"@!%p0 bra over; {WAIT} ld.global.u32 %r1, [%d3]; over:", False),
    # In a loop: before the wait of the first pass, or after it.
    (
        "mov.u32 %r4, 0; again: ld.global.u32 %r1, [%d3]; setp.ne.u32 %p2, %r4, 0; @%p2 bra on;"
        f" {WAIT} on: add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 3; @%p3 bra again;",
        True,
    ),
    (
        "mov.u32 %r4, 0; again: setp.ne.u32 %p2, %r4, 0; @%p2 bra on;"
        f" {WAIT} on: ld.global.u32 %r1, [%d3]; add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 3;"
        " @%p3 bra again;",
        False,
    ),
]


def launch(body: str, *, programmatic: bool) -> None:
    bench, memory = Bench(parse(f"{HEAD}{body} ret; }}")), Memory()
    out, weights = at_256(np.zeros(64, np.uint32)), at_256(np.ones(64, np.uint32))
    memory.add(out, "out")
    memory.add(weights, "weights", early=early_accesses.READS)
    bench.launch(
        "kernel", 2, 64, out, weights, memory=memory, programmatic=programmatic, counters=False
    )


@pytest.mark.parametrize(("body", "early"), CASES)
def test_who_reads_too_early(body: str, early: bool) -> None:
    if early:
        with pytest.raises(Fault, match=r"by a thread that has not executed griddepcontrol\.wait"):
            launch(body, programmatic=True)
    else:
        launch(body, programmatic=True)
    launch(body, programmatic=False)


def test_the_fault_names_argument_line_and_thread() -> None:
    with pytest.raises(Fault) as caught:
        launch(f"@%p0 {WAIT}\nld.global.u32 %r1, [%d3];", programmatic=True)
    fault = caught.value
    assert fault.kind == "race" and "read of 4 bytes at offset 128 of out" in fault.message
    assert "block (0, 0, 0), thread (32, 0, 0), PTX line " in fault.where
    assert "ld.global.u32" in fault.where
