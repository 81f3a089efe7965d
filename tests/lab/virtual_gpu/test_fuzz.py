"""Mutated PTX: refused as text or accepted, and never a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.virtual_gpu.fuzz import attempt, fuzz, pieces

TEXT = """.version 9.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 out, .param .u32 n) {
.reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<3>; .reg .b64 %rd<4>; .shared .b8 tile[64];
mov.u32 %r0, %tid.x; ld.param.u32 %r1, [n]; setp.ge.u32 %p0, %r0, %r1; @%p0 bra $done;
cvt.rn.f32.u32 %f0, %r0; fma.rn.f32 %f1, %f0, %f0, 0f3F800000; ld.param.u64 %rd0, [out];
mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd0, %rd1; st.global.f32 [%rd2], %f1;
$done:
ret; }
"""


def test_mutations_do_not_crash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text(TEXT)
    assert attempt(TEXT) == "accepted"
    assert fuzz([path], 600, 1, 0) == 0
    assert "600 texts, seed 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "outcome"),
    [
        (".reg .b32 %r<6>", ".reg .b32 %r<4294967295>", "not_ptx"),
        (".reg .b32 %r<6>", ".reg . %r<6>", "not_ptx"),
        (".reg .b32 %r<6>", ".reg .b %r<6>", "not_ptx"),
        ("add.s64 %rd2, %rd0, %rd1", "add.s64 %rd2, %rd0", "unsupported"),
        ("cvt.rn.f32.u32", "cvt.rn.f32.u33", "unsupported"),
        # What ptxas does not take either.
        ("fma.rn.f32 %f1, %f0, %f0, 0f3F800000", "fma.rn.f32 %f1, %f0, %f0, 1", "unsupported"),
        ("fma.rn.f32 %f1, %f0", "fma.rn.f32 %f1, %rd0", "unsupported"),
        ("setp.ge.u32 %p0, %r0, %r1", "setp.ge.u32 %p0, %f0, %r1", "unsupported"),
        ("mul.wide.u32 %rd1", "mul.wide.u32 %r1", "unsupported"),
        ("st.global.f32 [%rd2]", "st.global.f32 [%r2]", "unsupported"),
        ("st.global.f32 [%rd2]", "st.global.f32 [16]", "unsupported"),
        ("add.s64 %rd2, %rd0, %rd1", "add.s64 %rd2, %rd0, %tid.x", "unsupported"),
        ("@%p0 bra", "@%r0 bra", "not_ptx"),
        ("ret;", "ret;;", "not_ptx"),
        (".param .u32 n) {", ".param .u32 n) .maxntid 0f3F800000 {", "not_ptx"),
        ("$done:", "$done: $done:", "not_ptx"),
        (".reg .b32 %r<6>", ".reg .b32 %r<6>, %r1", "not_ptx"),
        (".shared .b8 tile[64]", ".shared .b8 tile[-1]", "not_ptx"),
        (".shared .b8 tile[64]", ".shared .shared .b8 tile[64]", "not_ptx"),
        (".shared .b8 tile[64]", ".shared .align 3 .b8 tile[64]", "not_ptx"),
        (".param .u64 out, ", ".param .u64 out ", "not_ptx"),
        (".target sm_90", ".target sm_", "not_ptx"),
        (".version 9.0", ".version", "not_ptx"),
    ],
)
def test_what_mutations_found(old: str, new: str, outcome: str) -> None:
    assert old in TEXT and attempt(TEXT.replace(old, new)) == outcome


def test_kernels_are_tried_one_by_one_with_what_they_call() -> None:
    head = ".version 9.0\n.target sm_90\n.address_size 64\n"
    called = ".func (.param .b32 r) helper(.param .b32 a)\n{ ret; }\n"
    one = ".visible .entry one() // the first\n{ call helper; ret; }\n"
    two = ".visible .entry two()\n{ ret; }\n"
    first, second = pieces(head + called + one + two)
    assert "helper(" in first and "first" not in first and ".entry one" in first
    assert second == head + two
