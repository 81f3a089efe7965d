"""Races between blocks: the same finding on any number of cores, over parts of a launch."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from astra_vgpu import c_engine, numpy_engine
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.memory.block_races import SWITCH, block_races_of
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.ptx.parser import Module, parse
from astra_vgpu.runtime.calls import device_array
from astra_vgpu.runtime.compile import compile_file
from astra_vgpu.types import Dim3, Fault, Launch

SOURCE = """
#define KERNEL(name) extern "C" __global__ void name(float* out, int n)
#define INDEX (int)(blockIdx.x * blockDim.x + threadIdx.x)
KERNEL(neighbours) { if (INDEX + 1 < n) out[INDEX] = out[INDEX] + out[INDEX + 1]; }
KERNEL(own) { if (INDEX < n) out[INDEX] = 3 * out[INDEX] + 1; }
KERNEL(mixed) { int i = threadIdx.x * gridDim.x + blockIdx.x; if (i < n) out[i] = 3 * out[i] + 1; }
KERNEL(last_writes) {
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 7) out[5] = -1;
  if (blockIdx.x < gridDim.x - 1) out[INDEX] = 1;
}
"""
BLOCKS, THREADS = 64, 96
N = BLOCKS * THREADS


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Module:
    folder = tmp_path_factory.mktemp("block_races")
    (folder / "k.cu").write_text(SOURCE)
    return parse(compile_file(folder / "k.cu", folder, spec("h200")).ptx.read_text())


class Bench:
    """One kernel on memory of its own."""

    def __init__(self, module: Module, kernel: str) -> None:
        self.memory, self.out = Memory(), device_array(4 * N).view(np.float32)
        self.out[:] = np.arange(N)
        params = struct.pack("<Qi", self.memory.add(self.out, "out"), N)
        self.launch = Launch(kernel, Dim3(BLOCKS), Dim3(THREADS), 0, params)
        self.c = c_engine.translate(module, kernel)

    def on_c(self, workers: int, **options: Any) -> None:
        c_engine.run(self.c, self.launch, self.memory, workers=workers, **options)

    def on_numpy(self, **options: Any) -> None:
        numpy_engine.run(self.c.reference, self.launch, self.memory, **options)


@pytest.mark.parametrize("kernel", ["neighbours", "last_writes"])
@pytest.mark.second_tier
def test_cores_do_not_show(module: Module, kernel: str) -> None:
    said = set()
    for workers in (1, 2, 3, 2, 5):
        with pytest.raises(Fault) as caught:
            Bench(module, kernel).on_c(workers)
        said.add(str(caught.value))
    what = {"neighbours": "threads of a block", "last_writes": "blocks"}[kernel]
    assert len(said) == 1 and f"race between {what} on global memory" in said.pop()


def test_both_sides_are_named(module: Module) -> None:
    with pytest.raises(Fault) as caught:
        Bench(module, "last_writes").on_c(2)
    for part in (
        "writes 4 bytes at offset 20 of out (24576 bytes) that another block wrote",
        "the other access: k.cu:9, block (0, 0, 0), thread (5, 0, 0) of the same kernel",
    ):
        assert part in caught.value.message
    assert "k.cu:8, block (63, 0, 0), thread (7, 0, 0)" in caught.value.where
    with pytest.raises(Fault, match=r"block .*, thread .* of the same kernel"):
        Bench(module, "last_writes").on_numpy()


@pytest.mark.parametrize("kernel", ["own", "mixed"])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_second_look_leaves_no_trace(module: Module, kernel: str, workers: int) -> None:
    """Blocks of `mixed` share sectors, so the launch runs again, on its old input."""
    bench = Bench(module, kernel)
    bench.on_c(workers)
    np.testing.assert_array_equal(bench.out, 3 * np.arange(N, dtype=np.float32) + 1)


def test_parts_of_a_launch_know_of_each_other(module: Module) -> None:
    bench = Bench(module, "last_writes")
    block_races = block_races_of(bench.c.reference.reach, bench.launch, bench.memory, {})
    early, late = range(BLOCKS // 2), range(BLOCKS // 2, BLOCKS)
    bench.on_numpy(blocks=early, block_races=block_races)
    with pytest.raises(Fault, match="between blocks"):
        bench.on_c(2, blocks=late, block_races=block_races)


def test_it_can_be_left_out(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    Bench(module, "last_writes").on_c(2, races=False)
    monkeypatch.setenv(SWITCH, "off")
    Bench(module, "last_writes").on_c(2)
    Bench(module, "last_writes").on_numpy()


def test_what_is_only_read_or_has_one_block_is_not_watched(module: Module) -> None:
    bench = Bench(module, "own")
    reach = bench.c.reference.reach
    one = Launch("own", Dim3(1), Dim3(96), 0, bench.launch.params)
    assert block_races_of(reach, one, bench.memory, {}) is None
    found = block_races_of(reach, bench.launch, bench.memory, {})
    assert found is not None and list(found.fine()) == [bench.out.ctypes.data]
