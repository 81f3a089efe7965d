"""What a program's own memory tells of its kernels, beside what ptxas says."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.ground.toolkit import find_toolkit
from astra_vgpu.programs.build_program import for_virtual_gpu
from astra_vgpu.runtime.calls import CallUnsupported
from astra_vgpu.runtime.compile import compile_file
from astra_vgpu.runtime.fat_binary import device_code

SOURCE = """
__device__ __noinline__ float helper(float x) { return x * x + 1; }
__global__ void plain(float* p) { p[threadIdx.x] = helper(p[threadIdx.x]); }
__global__ void shared(int* p) {
  __shared__ int s[100];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = s[99 - threadIdx.x];
}
"""


def binary(source: Path, flags: list[str]) -> ctypes.Array[ctypes.c_char]:
    """The fat binary of a file's object."""
    toolkit = find_toolkit()
    target = source.with_suffix(".fatbin")
    command = [str(toolkit.nvcc), f"-ccbin={toolkit.cxx}", *flags, "-fatbin", "-o", str(target)]
    subprocess.run([*command, str(source)], check=True, capture_output=True)
    return ctypes.create_string_buffer(target.read_bytes())


@pytest.mark.parametrize("gpu", ["a100", "rtx4090", "h200"])
def test_resources_are_those_that_ptxas_tells(gpu: str, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(SOURCE)
    flags = ["-std=c++17", "-O3"]
    told = compile_file(source, tmp_path, spec(gpu), flags)
    data = binary(source, for_virtual_gpu(flags, spec(gpu)))
    major, minor = spec(gpu).compute
    code = device_code(ctypes.addressof(data), 10 * major + minor)
    assert code.resources == told.resources and len(told.resources) == 2
    assert b".visible .entry _Z6sharedPi" in code.ptx


def test_device_code_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(SOURCE)
    only_code = binary(source, ["-arch=compute_90", "-code=sm_90"])
    with pytest.raises(CallUnsupported, match="without PTX for compute capability 90"):
        device_code(ctypes.addressof(only_code), 90)
    packed = binary(source, ["-arch=sm_90"])
    with pytest.raises(CallUnsupported, match="astra-vgpu-nvcc did not build"):
        device_code(ctypes.addressof(packed), 90)
    with pytest.raises(CallUnsupported, match="of a format"):
        device_code(ctypes.addressof(ctypes.create_string_buffer(16)), 90)
