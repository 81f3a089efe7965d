"""Runs of stores in the PTX."""

from __future__ import annotations

import pytest

from astra_vgpu.lowering.store_merging import APART, store_runs
from astra_vgpu.numpy_engine.program import prepare
from astra_vgpu.ptx.parser import parse

TEXT = """.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{{ .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 4 .b8 room[128];
ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 5; {body} ret; }}
"""
FIRST, SECOND, THIRD = (f"st.global.u32 [%rd1+{at}], %r1;" for at in (8, 0, 4))


def runs(body: str) -> list[tuple[int, ...]]:
    module = parse(TEXT.format(body=body))
    found = store_runs(prepare(module, module.kernels["k"], cooperative=False).blocks)
    return sorted(run for run in found.values() if run)


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("", [(0, -8, -4)]),
        ("add.u32 %r1, %r1, 1;", [(0, -8, -4)]),
        ("st.shared.u32 [room], %r1; ld.shared.u32 %r2, [room];", [(0, -8, -4)]),
        ("ld.global.u32 %r2, [%rd2];", [(0, 4)]),
        ("add.s64 %rd1, %rd1, 4;", [(0, 4)]),
        ("bar.sync 0;", [(0, 4)]),
        ("A: @%p1 bra A;", [(0, 4)]),
        ("st.global.u32 [%rd2], %r1;", [(0, 4)]),
        ("@%p1 st.global.u32 [%rd1], %r1;", [(0, 4)]),
        ("st.volatile.global.u32 [%rd1], %r1;", [(0, 4)]),
        ("add.u32 %r1, %r1, 1;" * (APART + 1), [(0, 4)]),
    ],
)
def test_what_may_stand_between(between: str, expected: list[tuple[int, ...]]) -> None:
    assert runs(FIRST + between + SECOND + THIRD) == expected


def test_a_store_alone_is_in_no_run() -> None:
    assert runs(FIRST) == []
