"""Unset registers are reported where they reach memory or a branch, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numpy_engine.conftest import Bench, at_256

from astra_vgpu import numpy_engine
from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import Fault

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n"
    "{ .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>;\n"
    ".shared .align 4 .b8 room[256];\n"
    "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;\n"
    "add.s64 %rd3, %rd1, %rd2; setp.lt.u32 %p1, %r1, 16;\n"
)


def launch(body: str) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    out = at_256(np.zeros(32, np.uint32))
    Bench(parse(f"{HEAD}{body}\nret; }}")).launch("k", 1, 32, out)
    return out


REACHING = {
    "stored": "st.global.u32 [%rd3], %r5;",
    "stored after arithmetic": "add.u32 %r6, %r5, %r1; st.global.u32 [%rd3], %r6;",
    "stored by a generic address": "st.u32 [%rd3], %r5;",
    "a float": "mul.f32 %f2, %f1, 0f00000000; st.global.f32 [%rd3], %f2;",
    "an address": "cvt.u64.u32 %rd4, %r5; add.s64 %rd5, %rd1, %rd4; ld.global.u32 %r6, [%rd5];",
    "an address in shared memory": (
        "mov.u32 %r2, room; add.u32 %r3, %r2, %r5; st.shared.u32 [%r3], 1;"
    ),
    "a branch": "setp.gt.u32 %p2, %r5, 9; @%p2 bra L; st.global.u32 [%rd3], 1; L:",
    "an unset predicate": "@%p3 bra L; st.global.u32 [%rd3], 1; L:",
    "a guard": "@%p3 st.global.u32 [%rd3], 1;",
    "an atomic": "atom.global.add.u32 %r6, [%rd3], %r5;",
    "set in half of the lanes": "@%p1 mov.u32 %r5, 1; st.global.u32 [%rd3], %r5;",
    "from another lane": (
        "@%p1 mov.u32 %r5, 1; shfl.sync.bfly.b32 %r6, %r5, 16, 31, -1; "
        "@%p1 st.global.u32 [%rd3], %r6;"
    ),
    "a bit of it": "and.b32 %r6, %r5, 1; st.global.u32 [%rd3], %r6;",
    "a barrier's predicate": "bar.red.popc.u32 %r6, 0, %p3;",
}


@pytest.mark.parametrize("body", REACHING.values(), ids=REACHING.keys())
def test_what_depends_on_an_unset_register_is_reported(body: str) -> None:
    with pytest.raises(Fault, match="a register that nothing has set") as caught:
        launch(body)
    assert caught.value.kind == "unset_register" and "PTX line" in caught.value.where


HARMLESS = {
    "nobody uses it": ("add.u32 %r6, %r5, 1; st.global.u32 [%rd3], %r1;", lambda lane: lane),
    "set where it counts": (
        "@%p1 mov.u32 %r5, 7; @%p1 st.global.u32 [%rd3], %r5;",
        lambda lane: 7 * (lane < 16),
    ),
    "chosen away": (
        "@%p1 mov.u32 %r5, 7; selp.b32 %r6, %r5, 9, %p1; st.global.u32 [%rd3], %r6;",
        lambda lane: np.where(lane < 16, 7, 9),
    ),
    "bits cut away": ("and.b32 %r6, %r5, 0; st.global.u32 [%rd3], %r6;", lambda lane: 0 * lane),
    "half of a pair": (
        "mov.b16 %h1, 5; mov.b32 %r6, {%h1, %h2}; cvt.u16.u32 %h3, %r6; cvt.u32.u16 %r7, %h3; "
        "st.global.u32 [%rd3], %r7;",
        lambda lane: 0 * lane + 5,
    ),
    "a lane that nobody asks": (
        "@%p1 mov.u32 %r5, 7; shfl.sync.idx.b32 %r6, %r5, 3, 31, -1; st.global.u32 [%rd3], %r6;",
        lambda lane: 0 * lane + 7,
    ),
    "stored on chip": (
        "mov.u32 %r2, room; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; st.shared.u32 [%r4], %r5; "
        "st.global.u32 [%rd3], %r1;",
        lambda lane: lane,
    ),
    "loaded on every path that runs": (
        "setp.lt.u32 %p2, %r1, 99; @%p2 bra L; bra M; L: ld.global.u32 %r5, [%rd3]; M: "
        "add.u32 %r6, %r5, %r1; st.global.u32 [%rd3], %r6;",
        lambda lane: lane,
    ),
}


@pytest.mark.parametrize(("body", "expected"), HARMLESS.values(), ids=HARMLESS.keys())
def test_what_cancels_out_passes(body: str, expected: object) -> None:
    assert callable(expected)
    assert (launch(body) == expected(np.arange(32, dtype=np.uint32))).all()


def test_a_kernel_that_sets_all_its_registers_has_no_twins() -> None:
    text = f"{HEAD}mov.u32 %r5, 1; st.global.u32 [%rd3], %r5;\nret; }}"
    program = numpy_engine.translate(parse(text), "k")
    assert not program.twins and not program.unset


def test_the_first_reader_is_named() -> None:
    with pytest.raises(Fault, match=r"read as %r5, at PTX line 10"):
        launch("\nadd.u32 %r6, %r5, 1;\nst.global.u32 [%rd3], %r6;")
