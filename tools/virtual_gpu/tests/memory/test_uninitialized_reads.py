"""How uninitialized reads are reported, and how writes by host code count."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from astra_vgpu.gpu import VirtualGpu
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.memory.uninitialized_reads import first_of_each, warnings_of
from astra_vgpu.runtime.calls import device_array
from astra_vgpu.runtime.compile import compile_file
from astra_vgpu.types import (
    NAN_BITS,
    Counters,
    Dim3,
    Engine,
    Launch,
    LaunchReport,
    UninitializedReads,
)

SOURCE = """
#include <cuda_runtime.h>
__global__ void add(float* to, const float* from, int n) {
  if (threadIdx.x < n) to[threadIdx.x] += from[threadIdx.x];
}
extern "C" int call(float* out, const float* in, int n, int how) {
  float* room = nullptr;
  cudaMalloc(&room, 4 * n);
  if (how == 'z') cudaMemset(room, 0, 4 * n);
  if (how == 'h') cudaMemset(room, 0, 4 * (n / 2));
  if (how == 'c') cudaMemcpy(room, in, 4 * n, cudaMemcpyDeviceToDevice);
  add<<<1, 64>>>(room, in, n);
  add<<<1, 64>>>(room, in, n);
  cudaMemcpy(out, room, 4 * n, cudaMemcpyDeviceToDevice);
  add<<<1, 64>>>(out, room, n);
  if (how != 'l') cudaFree(room);
  return cudaGetLastError();
}
"""
N = 40


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("uninitialized")
    (folder / "call.cu").write_text(SOURCE)
    return compile_file(folder / "call.cu", folder, spec("h200"), ("-std=c++17", "-O3"))


def called(built: Any, how: str) -> dict[str, str]:
    gpu = VirtualGpu(spec("h200"), engine="numpy")
    library = gpu.load(Path(built.library), Path(built.ptx), built.resources)
    out, given = (device_array(4 * N).view(np.float32) for _ in range(2))
    given[:] = 1
    places = [gpu.register(out, "out", uninitialized=True), gpu.register(given, "in")]
    for _ in range(2):  # what a call before left is no news
        gpu.reset()
        assert library.call(*map(ctypes.c_void_p, places), N, ord(how)) == 0
        assert gpu.fault is None
    return gpu.warnings()


@pytest.mark.parametrize("how", ["z", "c"])
@pytest.mark.second_tier
def test_what_the_host_wrote_is_written(built: Any, how: str) -> None:
    assert called(built, how) == {}


def test_a_part_that_it_left_out_is_told_once(built: Any) -> None:
    ((where, words),) = called(built, "h").items()
    assert "call.cu:4" in where and "cudaMalloc number" in where
    assert "read of 4 bytes at offset 80 of cudaMalloc number" in words
    assert "(160 bytes)" in words and "thread (20, 0, 0)" in words


def test_what_was_not_freed_is_told_of_this_call_alone(built: Any) -> None:
    words = list(called(built, "l").values())
    assert len(words) == 2 and words[0].startswith("uninitialized")
    assert words[1] == "leak: a buffer was allocated and not freed, 160 bytes"


def read(line: int, order: tuple[int, int], place: str = "offset 0 of x") -> UninitializedReads:
    return UninitializedReads(
        line, f"k.cu:{line // 10}", "ld", str(order[0]), str(order[1]), order, 4, place
    )


def test_the_first_thread_of_an_instruction_counts() -> None:
    later, first, other = read(12, (1, 0)), read(12, (0, 31)), read(7, (3, 3))
    assert first_of_each([later, other, first]) == (other, first)


def test_a_source_line_is_told_once_a_buffer() -> None:
    found = (read(10, (1, 0)), read(11, (0, 5)), read(12, (2, 0), "offset 4 of y"))
    report = LaunchReport(
        Launch("k", Dim3(4), Dim3(32), 0, b""), 4, Counters(), uninitialized=found
    )
    words = warnings_of([report])
    assert list(words) == ["k, k.cu:1, x", "k, k.cu:1, y"]
    assert "block 0, thread 5" in words["k, k.cu:1, x"]


SHARED = """
#include <cuda_runtime.h>
__global__ void largest(float* to) {
  __shared__ float of_warps[32];
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = 1.0f;
  __syncthreads();
  float most = 0.0f;
  for (int w = 0; w < 32; w++) most = fmaxf(most, of_warps[w]);
  to[threadIdx.x] = most;
}
extern "C" int call(float* out) {
  largest<<<1, 64>>>(out);
  return cudaGetLastError();
}
"""


@pytest.mark.parametrize("engine", ["numpy", "c"])
@pytest.mark.second_tier
def test_shared_memory_may_hold_numbers_that_an_earlier_kernel_left(
    engine: Engine, tmp_path: Path
) -> None:
    """A maximum over places that nothing wrote passes over NaNs, and takes these."""
    (tmp_path / "call.cu").write_text(SHARED)
    found = compile_file(tmp_path / "call.cu", tmp_path, spec("h200"), ("-std=c++17", "-O3"))
    gpu = VirtualGpu(spec("h200"), engine=engine, sample_instructions=None)
    library = gpu.load(Path(found.library), Path(found.ptx), found.resources)
    out = device_array(4 * 64).view(np.float32)
    place = gpu.register(out, "out")
    for bits, most in ((NAN_BITS, 1.0), (0x4123, 10.203_402_5), (0xC123, 1.0)):
        gpu.left_there = bits
        assert library.call(ctypes.c_void_p(place)) == 0
        assert np.allclose(out, most), hex(bits)
