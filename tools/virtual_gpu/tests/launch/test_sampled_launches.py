"""Several launches of one call, of which the first is too large to run whole."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from astra_vgpu.gpu import VirtualGpu
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.launch.sampled_launches import Parts
from astra_vgpu.runtime.calls import device_array
from astra_vgpu.runtime.compile import compile_file
from astra_vgpu.types import (
    Counters,
    Dim3,
    Engine,
    Launch,
    LaunchReport,
    PtxUnsupported,
)

N, THREADS = 1 << 20, 256
BLOCKS = N // THREADS
SOURCE = """
#include <cuda_runtime.h>
__global__ void twice(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * in[i];
}
__global__ void turned(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[n - 1 - i];
}
extern "C" int chain(float* out, float* between, const float* in, int n, int how) {
  int blocks = n / 256;
  twice<<<blocks, 256>>>(between, in, n);
  if (how == 'm') cudaMemset(between, 0, 4);
  if (how == 't') turned<<<blocks, 256>>>(out, between, n);
  else if (how == 's') twice<<<blocks, 256>>>(out, between, n);
  else twice<<<blocks / 2, 512>>>(out, between, n);
  if (how == '3') twice<<<blocks, 256>>>(between, in, n);
  return cudaGetLastError();
}
"""
Chain = Callable[..., tuple[int, VirtualGpu, Any]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("parts")
    (folder / "chain.cu").write_text(SOURCE)
    return compile_file(folder / "chain.cu", folder, spec("h200"), ("-std=c++17", "-O3"))


@pytest.fixture
def chain(built: Any) -> Chain:
    def run(how: str, blocks: int, engine: Engine) -> tuple[int, VirtualGpu, Any]:
        # `twice` is worth 17 instructions a thread.
        share = 20 if engine == "c" else 1
        gpu = VirtualGpu(
            spec("h200"), engine=engine, sample_instructions=17 * THREADS * blocks // share
        )
        library = gpu.load(Path(built.library), Path(built.ptx), built.resources)
        arrays = [device_array(4 * N).view(np.float32) for _ in range(3)]
        arrays[2][:] = np.arange(N)
        places = [
            ctypes.c_void_p(gpu.register(array, name, uninitialized=name != "in"))
            for array, name in zip(arrays, ("out", "between", "in"), strict=True)
        ]
        gpu.reset()
        return library.chain(*places, N, ord(how)), gpu, arrays[0]

    return run


@pytest.mark.parametrize("engine", ["numpy", "c"])
def test_with_the_same_grid_the_same_blocks_run(chain: Chain, engine: Engine) -> None:
    status, gpu, out = chain("s", 100, engine)
    assert status == 0 and gpu.fault is None and gpu.warnings() == {}
    first, second = gpu.reports()
    assert first.sampled and first.ran == second.ran and first.blocks_run == second.blocks_run
    assert second.ran is not None
    mine = (np.array(second.ran)[:, None] * THREADS + np.arange(THREADS)).reshape(-1)
    np.testing.assert_array_equal(out[mine], 4.0 * mine)


@pytest.mark.parametrize("engine", ["numpy", "c"])
def test_before_another_grid_the_first_launch_runs_to_its_end(chain: Chain, engine: Engine) -> None:
    status, gpu, out = chain("o", BLOCKS // 5, engine)
    assert status == 0 and gpu.fault is None
    first, second = gpu.reports()
    assert not first.sampled and first.counters.global_store_bytes == 4 * N
    assert second.sampled and second.ran is not None
    mine = (np.array(second.ran)[:, None] * 512 + np.arange(512)).reshape(-1)
    np.testing.assert_array_equal(out[mine], 4.0 * mine)


@pytest.mark.parametrize(
    ("how", "blocks", "words"),
    [
        ("o", 100, "are too many to run: one of another grid needs them all"),
        ("m", 2000, "host code has written to device memory since"),
        ("t", 100, "it reads what the other blocks would have written: offset"),
    ],
)
def test_what_may_lack_its_input_is_refused(
    chain: Chain, how: str, blocks: int, words: str
) -> None:
    status, gpu, _ = chain(how, blocks, "numpy")
    assert status == 801 and words in str(gpu.fault)
    assert "twice" in str(gpu.fault) and "only a sample of blocks ran" in str(gpu.fault)


def test_a_third_launch_goes_on_from_the_second(chain: Chain) -> None:
    status, gpu, _ = chain("3", BLOCKS // 5, "numpy")
    first, second, third = gpu.reports()
    assert status == 0 and not first.sampled and not second.sampled and third.sampled


def test_a_cooperative_launch_can_not_follow_a_sample_of_the_same_grid() -> None:
    parts = Parts()
    launch = Launch("k", Dim3(100), Dim3(32), 0, b"")
    parts.alone(launch)
    parts.after(LaunchReport(launch, 10, Counters(), ran=range(10)), lambda _: pytest.fail("runs"))
    with pytest.raises(PtxUnsupported, match="a cooperative launch needs all its blocks"):
        parts.alone(launch)
