from __future__ import annotations

from pathlib import Path

import pytest

from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.runtime.compile import CompileFailed, compile_file, read_resources

LOG = """ptxas info    : Compiling entry function '_Z1av' for 'sm_90'
ptxas info    : Function properties for _Z1av
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 1 barriers, 1024 bytes smem, 352 bytes cmem[0]
ptxas info    : Compiling entry function '_Z1bv' for 'sm_90'
ptxas info    : Used 255 registers, used 0 barriers
"""


def test_registers_and_shared_memory_are_read_from_ptxas_log() -> None:
    assert read_resources(LOG) == {"_Z1av": (12, 1024), "_Z1bv": (255, 0)}


def test_a_file_that_nvcc_refuses_is_told_with_its_words(tmp_path: Path) -> None:
    bad = tmp_path / "bad.cu"
    bad.write_text("__global__ void k() { nonsense; }")
    with pytest.raises(CompileFailed, match='identifier "nonsense" is undefined'):
        compile_file(bad, tmp_path, spec("h200"))
    with pytest.raises(BadInput, match="no file"):
        compile_file(tmp_path / "none.cu", tmp_path, spec("h200"))


@pytest.mark.parametrize("gpu", ["a100", "rtx4090"])
def test_the_ptx_is_for_the_chosen_gpu(gpu: str, tmp_path: Path) -> None:
    good = tmp_path / "good.cu"
    good.write_text("__global__ void k(int* p) { *p = 1; }\nint main() { return 0; }")
    built = compile_file(good, tmp_path, spec(gpu))
    number = "".join(map(str, spec(gpu).compute))
    assert f".target sm_{number}" in built.ptx.read_text()
    assert list(built.resources) == ["_Z1kPi"]
