"""FlashInfer's norms in CuTe DSL as CUDA source; the DSL itself is needed to make one."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from astra_chat.tools.task.folder import find_task
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.toolkit import find_toolkit
from lab.baselines import cute_kernels
from lab.baselines.cute_kernels import IN_CUTE, CuteCompiled, cute_source, plain_ptx, write_cute
from lab.baselines.foreign import Places, foreign_kernels

NAME = "kernel_of_the_dsl_tensor_1"
PTX = f"""\
.extern .shared .align 1024 .b8 __dynamic_shmem__0[];
.visible .entry {NAME}(
\t.param .align 8 .b8 {NAME}_param_0[16],
\t.param .align 8 .b8 {NAME}_param_1[8],
\t.param .align 8 .b8 {NAME}_param_2[16],
\t.param .u64 {NAME}_param_3,
\t.param .f32 {NAME}_param_4
)
.reqntid 128, 1, 1
{{
\t.reg .b32 \t%r<3>;
\t.reg .b64 \t%rd<5>;
\tld.param.b64 \t%rd1, [{NAME}_param_0];
\tld.param.b64 \t%rd2, [{NAME}_param_2];
\tld.param.b64 \t%rd3, [{NAME}_param_3];
\tld.param.b32 \t%r1, [{NAME}_param_4];
\tmov.b32 \t%r2, __dynamic_shmem__0;
\tst.shared.b32 \t[%r2], %r1;
\tst.global.b64 \t[%rd2], %rd3;
\tret;
}}
"""
MADE = CuteCompiled(PTX, shared_bytes=60000, threads=128, rows=2, cluster=1)


def test_a_tensor_becomes_an_address() -> None:
    plain = plain_ptx(PTX)
    assert ".param .u64 kernel_param_0,\n\t.param .u64 kernel_param_1," in plain
    assert "global_smem" in plain and NAME not in plain and "shmem" not in plain
    with pytest.raises(BadInput, match="no kernel"):
        plain_ptx(".version 9.0\n")


def test_each_row_length_is_a_kernel_that_builds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel, rows = IN_CUTE["rmsnorm"], [("bfloat16", 4096), ("float16", 8192)]
    monkeypatch.setattr(cute_kernels, "_compiled", lambda *_: [MADE, replace(MADE, rows=1)])
    (tmp_path / "rmsnorm.cu").write_text(cute_source(kernel, rows, tmp_path))
    with_pdl, plain = foreign_kernels(find_task("rmsnorm"), Places(cute=tmp_path))
    assert (with_pdl.name, plain.name) == ("cute-pdl", "cute")
    name = "cute_RMSNormKernel_bfloat16_4096"
    assert f"if (dtype == 2 && h == 4096) return {{{name}, 2, 128, 60000}};" in plain.source
    (tmp_path / "all.cu").write_text(plain.source)
    command = [str(find_toolkit().nvcc), *plain.task.flags, "-arch=sm_90", "-cubin"]
    command += ["-o", str(tmp_path / "all.cubin"), str(tmp_path / "all.cu")]
    subprocess.run(command, check=True, capture_output=True)
    assert b"cute_RMSNormKernel_float16_8192" in (tmp_path / "all.cubin").read_bytes()


def test_what_the_launcher_cannot_start_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cute_kernels, "_compiled", lambda *_: [replace(MADE, cluster=2)])
    with pytest.raises(BadInput, match="launches clusters"):
        cute_source(IN_CUTE["rmsnorm"], [("bfloat16", 4096)], tmp_path)
    with pytest.raises(BadInput, match=r"contains no norm/kernels/rmsnorm\.py"):
        write_cute(tmp_path, tmp_path / "out")


def test_a_package_that_does_not_compile_is_refused_in_a_line(tmp_path: Path) -> None:
    """Whatever the reason is: no DSL here, or a file without kernels."""
    folder = tmp_path / "norm/kernels"
    folder.mkdir(parents=True)
    for one in IN_CUTE.values():
        (folder / f"{one.module}.py").write_text("raise RuntimeError('no norm here')\n")
    with pytest.raises(BadInput, match="CuTe DSL cannot compile RMSNormKernel: ") as error:
        write_cute(tmp_path, tmp_path / "out")
    assert "\n" not in str(error.value)
