"""Equal inputs give equal bytes and counters, on any number of the host's threads."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from astra_vgpu import c_engine, numpy_engine
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.ptx.parser import Module, parse
from astra_vgpu.runtime.calls import device_array
from astra_vgpu.runtime.compile import compile_file
from astra_vgpu.types import Dim3, Launch, LaunchReport

SOURCE = """
__global__ void rows(float* out, const float* in, int n) {
  __shared__ float part[96];
  float s = 0;
  for (int i = threadIdx.x; i < n; i += 96) s += in[blockIdx.x * n + i] * in[i];
  part[threadIdx.x] = s;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += 96)
    if (in[i] > 0.3f) out[blockIdx.x * n + i] = __expf(in[blockIdx.x * n + i]) - part[i % 96];
}
__global__ void sums(float* out, const float* in, int n) {
  for (int i = threadIdx.x; i < n; i += 96) atomicAdd(out + i % 7, in[blockIdx.x * n + i]);
}
"""
BLOCKS, COLUMNS = 37, 250


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Module:
    folder = tmp_path_factory.mktemp("determinism")
    (folder / "k.cu").write_text(SOURCE)
    return parse(compile_file(folder / "k.cu", folder, spec("h200")).ptx.read_text())


def run(module: Module, kernel: str, workers: int | None) -> tuple[bytes, LaunchReport]:
    """On that many threads of the C engine, or on the NumPy engine."""
    memory = Memory()
    out, given = device_array(4 * BLOCKS * COLUMNS), device_array(4 * BLOCKS * COLUMNS)
    given.view(np.float32)[:] = np.random.default_rng(5).random(BLOCKS * COLUMNS, np.float32)
    out[:] = 0
    params = struct.pack("<QQi", memory.add(out, "out"), memory.add(given, "in"), COLUMNS)
    name = next(k for k in module.kernels if kernel in k)
    launch = Launch(name, Dim3(BLOCKS), Dim3(96), 0, params)
    if workers is None:
        report = numpy_engine.run(numpy_engine.translate(module, name), launch, memory)
    else:
        report = c_engine.run(c_engine.translate(module, name), launch, memory, workers=workers)
    return out.tobytes(), report


@pytest.mark.parametrize("kernel", ["rows", "sums"])
def test_cores_do_not_show(module: Module, kernel: str) -> None:
    (bytes_1, one), *others = (run(module, kernel, workers) for workers in (1, 2, 3, 2))
    for bytes_n, several in others:
        assert bytes_n == bytes_1
        assert vars(several.counters) == vars(one.counters)


def test_batches_of_the_numpy_engine_do_not_show_either(module: Module) -> None:
    first, second = run(module, "rows", None), run(module, "rows", None)
    assert first[0] == second[0] == run(module, "rows", 2)[0]
    assert vars(first[1].counters) == vars(second[1].counters)
    assert first[1].counters == run(module, "rows", 2)[1].counters
