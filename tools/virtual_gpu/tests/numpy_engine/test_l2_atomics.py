"""Turns of atomics, by hand; the C engine counts the same (c_engine/test_turns.py)."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numpy_engine.conftest import Bench, at_256

from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import FLOAT_TRIES, Counters

TEXT = """.version 9.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 out)
{{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .shared .align 4 .b8 room[128];
mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out]; {index}
mul.wide.u32 %rd1, %r1, 4; add.s64 %rd2, %rd0, %rd1; shl.b32 %r2, %r1, 2; mov.u32 %r3, room;
add.u32 %r2, %r2, %r3; mov.f32 %f1, 0f3F800000; {operation} ret; }}
"""
OWN, EIGHT, ONE = "mov.u32 %r1, %r0;", "and.b32 %r1, %r0, 7;", "mov.u32 %r1, 3;"
WHOLE = "red.global.add.u32 [%rd2], 1;"
FLOAT = "red.global.add.f32 [%rd2], %f1;"


def counted(index: str, operation: str) -> Counters:
    bench = Bench(parse(TEXT.format(index=index, operation=operation)))
    return bench.launch("kernel", 2, 32, at_256(np.zeros(512, np.uint32))).counters


@pytest.mark.parametrize(
    ("index", "operation", "every", "hottest", "floats"),
    [
        # Two warps: four sectors each, one turn a sector; all lie in one region.
        (OWN, WHOLE, 8, 8, 0),
        (OWN, FLOAT, 8, 8, 2),
        # Eight words of one sector, each wanted by four lanes.
        (EIGHT, WHOLE, 8, 8, 0),
        (EIGHT, FLOAT, 8, 8, 8),
        # One word: integers are gathered, floats are not.
        (ONE, WHOLE, 2, 2, 0),
        (ONE, FLOAT, 64, 64, 64),
        # Lanes 64 words apart: each has a sector, two share a region.
        ("shl.b32 %r1, %r0, 6; and.b32 %r1, %r1, 511;", WHOLE, 64, 16, 0),
    ],
)
def test_turns_of_global_memory(
    index: str, operation: str, every: int, hottest: int, floats: int
) -> None:
    found = counted(index, operation)
    assert found.atomic_lanes == 64
    assert found.atomic_turns == every and found.atomic_hottest_turns == hottest
    assert found.atomic_float_turns == floats


@pytest.mark.parametrize(
    ("index", "operation", "wavefronts"),
    [
        (OWN, "atom.shared.add.u32 %r4, [%r2], %r0;", 2),
        (EIGHT, "atom.shared.add.u32 %r4, [%r2], %r0;", 8),
        (EIGHT, "atom.shared.add.u32 %r4, [%r2], 1;", 2),
        (EIGHT, "atom.shared.add.f32 %f2, [%r2], %f1;", 8 * FLOAT_TRIES),
    ],
)
def test_turns_of_shared_memory(index: str, operation: str, wavefronts: int) -> None:
    found = counted(index, operation)
    assert found.shared_requests == 2 and found.shared_wavefronts == wavefronts
    assert found.atomic_lanes == 0
