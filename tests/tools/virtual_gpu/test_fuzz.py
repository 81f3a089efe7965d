"""Mutated PTX: refused in words or accepted, and never a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.virtual_gpu.fuzz import attempt, fuzz

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
    ],
)
def test_what_mutations_found(old: str, new: str, outcome: str) -> None:
    assert old in TEXT and attempt(TEXT.replace(old, new)) == outcome
