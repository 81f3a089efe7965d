"""Which ordered reads fetch data."""

from __future__ import annotations

import pytest

from astra_vgpu.lowering.control_flow import control_flow
from astra_vgpu.lowering.data_reads import data_reads
from astra_vgpu.lowering.inline import inline
from astra_vgpu.lowering.ordered_accesses import unread_updates
from astra_vgpu.ptx.parser import parse

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry kernel(.param .u64 a)\n"
    "{ .shared .align 4 .b32 one[4]; .shared .align 4 .b32 other[4]; .reg .pred %p<4>;"
    " .reg .b32 %r<9>; .reg .b64 %d<9>; ld.param.u64 %d0, [a];\n"
)
ADD = "red.global.add.u32 [%d0], 1;"
READ = "atom.global.add.u32 %r1, [%d0], 0;"
KEEP = "st.global.u32 [%d0+8], %r1;"
TELL = "st.shared.u32 [one], %r1; bar.sync 0;"
TEST = "setp.eq.u32 %p0, %r2, 0; @%p0 bra on; st.global.u32 [%d0], 9; on:"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"{ADD} {READ} {KEEP}", 1),
        (f"{READ} {KEEP}", 0),
        (f"{ADD} ld.acquire.gpu.global.u32 %r1, [%d0]; {KEEP}", 1),
        (f"{ADD} ld.global.u32 %r1, [%d0]; {KEEP}", 0),
        (f"{ADD} {READ} add.u32 %r2, %r1, 1; {TEST}", 0),
        # Through shared memory, of one array and of another.
        (f"{ADD} {READ} {TELL} ld.shared.u32 %r2, [one]; {TEST}", 0),
        (f"{ADD} {READ} {TELL} ld.shared.u32 %r2, [other]; {TEST}", 1),
    ],
)
def test_reads_that_look_at_no_flag(body: str, expected: int) -> None:
    module = parse(f"{HEAD}{body} ret; }}")
    blocks = control_flow(inline(module, module.kernels["kernel"]), "kernel")
    assert len(data_reads(blocks, False, unread_updates(blocks))) == expected
