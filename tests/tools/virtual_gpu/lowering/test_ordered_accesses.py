"""Which loads and stores order something."""

from __future__ import annotations

import pytest

from astra_chat.tools.virtual_gpu.lowering.inline import inline
from astra_chat.tools.virtual_gpu.lowering.ordered_accesses import is_ordered, looks_in_loops
from astra_chat.tools.virtual_gpu.ptx.parser import parse
from astra_chat.tools.virtual_gpu.ptx.syntax import Instruction

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry kernel(.param .u64 a)\n"
    "{ .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<9>; ld.param.u64 %d0, [a];\n"
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ld.volatile.global.u32 %r1, [%d0];", False),
        ("again: ld.volatile.global.u32 %r1, [%d0]; setp.eq.u32 %p0, %r1, 0; @%p0 bra again;",
         True),
        ("again: ld.global.u32 %r1, [%d0]; setp.eq.u32 %p0, %r1, 0; @%p0 bra again;", False),
        ("again: atom.global.cas.b32 %r1, [%d0], 0, 1; setp.eq.u32 %p0, %r1, 1; @%p0 bra again;",
         True),
        ("again: atom.global.add.u32 %r1, [%d0], 1; setp.lt.u32 %p0, %r1, 9; @%p0 bra again;",
         False),
        ("ld.volatile.global.u32 %r1, [%d0]; setp.eq.u32 %p0, %r1, 0; @%p0 bra on; on:", False),
    ],
)  # fmt: skip
def test_loops_that_look(body: str, expected: bool) -> None:
    module = parse(f"{HEAD}{body} ret; }}")
    assert looks_in_loops(inline(module, module.kernels["kernel"]).body) == expected


@pytest.mark.parametrize(
    ("opcode", "looks", "expected"),
    [
        ("ld.volatile.global.u32", True, True),
        ("ld.volatile.global.u32", False, False),
        ("st.relaxed.gpu.global.u32", False, False),
        ("ld.acquire.gpu.global.u32", False, True),
        ("ld.global.u32", True, False),
    ],
)
def test_order(opcode: str, looks: bool, expected: bool) -> None:
    assert is_ordered(Instruction(opcode, (), None, 1), looks) == expected
