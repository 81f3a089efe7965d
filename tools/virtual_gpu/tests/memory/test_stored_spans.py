"""Which bytes of a buffer each block stored to."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numpy_engine.conftest import Bench
from tests.numpy_engine.test_block_races import HEAD

from astra_vgpu.memory.buffers import Memory
from astra_vgpu.memory.stored_spans import Span, StoredSpans
from astra_vgpu.ptx.parser import parse

FROM_SHARED = (
    ".shared .align 16 .b8 room[16]; mov.u32 %r4, room; mul.wide.u32 %d4, %r1, 32;"
    " add.u64 %d4, %d0, %d4; setp.ne.u32 %p2, %r0, 0; @%p2 bra over; st.shared.u32 [%r4], 7;"
    " fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group [%d4], [%r4], 16;"
    " cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; over:"
)


@pytest.mark.parametrize(
    ("body", "blocks"),
    [
        ("st.global.u32 [%d3], %r3;", {1: (256, 512), 3: (768, 1024)}),
        ("@%p1 st.global.u32 [%d3], %r3;", {1: (256, 512)}),
        ("setp.eq.u32 %p2, %r0, 5; @%p2 st.u16 [%d3+2], 7;", {1: (278, 280), 3: (790, 792)}),
        ("red.global.add.u32 [%d0+8], 1;", {1: (8, 12), 3: (8, 12)}),
        (FROM_SHARED, {1: (32, 48), 3: (96, 112)}),
    ],
)
def test_each_block_that_ran_has_its_span(body: str, blocks: dict[int, Span]) -> None:
    bench, memory = Bench(parse(f"{HEAD}{body} ret; }}")), Memory()
    memory.spans = spans = StoredSpans()
    out, given = np.zeros(1024, np.uint32), np.ones(1024, np.uint32)
    launch = (bench, "kernel", 4, 64, out, given)
    first, second = (
        Bench.launch(*launch, memory=memory, blocks=some, counters=False) for some in ([1, 3], [0])
    )
    buffer = memory.find(out.ctypes.data)
    assert buffer is not None
    assert spans.of(first.launch, buffer) == blocks
    assert set(spans.of(second.launch, buffer)) <= {0}
    read = memory.find(given.ctypes.data)
    assert read is not None and spans.of(first.launch, read) == {}
