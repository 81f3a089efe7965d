"""Launch plans on the virtual GPU: what a node does to memory, and what is refused by name."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from astra_chat.tools.plan.model import (
    ArgumentAddress,
    CopyNode,
    Im2colTensorMap,
    KernelNode,
    LaunchPlan,
    MemsetNode,
    Node,
    PointerRelocation,
    TensorMapRelocation,
    VariableAddress,
)
from astra_chat.tools.plan.virtual_replay import PlanUnsupported, VirtualReplayer, copies_us
from astra_chat.tools.types import Case
from astra_chat.tools.virtual_gpu.adapter import Fault, VirtualGpu, second_launch_us
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.ground.toolkit import find_toolkit

SOURCE = r"""
#include <cooperative_groups.h>
__device__ int calls = 40;
struct Pair { char first; int second; };
extern "C" __global__ void add(float* out, const float* x, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + by;
}
extern "C" __global__ void count(int* out, int* counter) { *out = atomicAdd(counter, 1); }
extern "C" __global__ void bytes_of(unsigned char* out, const __grid_constant__ Pair pair) {
  if (threadIdx.x < sizeof pair) out[threadIdx.x] = ((const unsigned char*)&pair)[threadIdx.x];
}
extern "C" __global__ void reversed(float* out, const float* x) {
  extern __shared__ float held[];
  held[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void together(int* out) {
  atomicAdd(out, 1);
  cooperative_groups::this_grid().sync();
  if (threadIdx.x == 0) out[1 + blockIdx.x] = *out;
}
"""
KERNELS = ("add", "count", "bytes_of", "reversed", "together")
CASE = Case(dims={"n": 100}, dtype="float32")


@pytest.fixture(scope="module")
def ptx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, toolkit = tmp_path_factory.mktemp("plan"), find_toolkit()
    (folder / "kernel.cu").write_text(SOURCE)
    command = [str(toolkit.nvcc), "-arch=compute_90", "-ptx", "-o", "kernel.ptx", "kernel.cu"]
    command += [f"-I{toolkit.include_dir}", f"-ccbin={toolkit.cxx}"]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    return folder / "kernel.ptx"


class Device:
    """A virtual GPU with the kernels loaded and arrays by argument name."""

    def __init__(self, ptx: Path) -> None:
        self.gpu = VirtualGpu(spec("h200"), engine="numpy")
        self.replayer = VirtualReplayer(self.gpu, ptx, dict.fromkeys(KERNELS, (32, 0)))
        self.addresses: dict[str, int] = {}

    def __call__(self, *nodes: Node, seed: int = 0, **arrays: np.ndarray) -> int:
        for address in self.addresses.values():
            self.gpu.unregister(address)
        self.addresses = {name: self.gpu.register(array, name) for name, array in arrays.items()}
        self.gpu.reset()
        plan = LaunchPlan(case=CASE, nodes=nodes)
        return self.replayer.replay(plan, self.addresses, random.Random(seed))


@pytest.fixture
def device(ptx: Path) -> Device:
    return Device(ptx)


def pointer(at: int, name: str, offset: int = 0) -> PointerRelocation:
    return PointerRelocation(at=at, to=ArgumentAddress(name=name, offset=offset))


def kernel(name: str, parameters: bytes, relocations: Sequence[object], **more: object) -> Node:
    fields = {"grid": (1, 1, 1), "block": (128, 1, 1), "parameters": parameters, **more}
    return KernelNode(kernel=name, relocations=relocations, **fields)


def add(n: int, by: float, x_offset: int = 0) -> Node:
    parameters = bytes(16) + np.float32(by).tobytes() + np.int32(n).tobytes()
    return kernel("add", parameters, (pointer(0, "out"), pointer(8, "x", x_offset)))


@pytest.mark.second_tier
def test_kernels_run_in_order_with_the_addresses_of_the_replay(device: Device) -> None:
    x, out = np.arange(101, dtype=np.float32), np.zeros(100, np.float32)
    assert device(add(100, 5.0), add(50, 2.0, x_offset=4), x=x, out=out) == 0
    assert np.array_equal(out[:50], x[1:51] + 2) and np.array_equal(out[50:], x[50:100] + 5)
    assert [r.launch.kernel for r in device.gpu.reports()] == ["add", "add"]


def test_a_write_past_an_argument_is_a_fault(device: Device) -> None:
    x, out = np.zeros(100, np.float32), np.zeros(99, np.float32)
    with pytest.raises(Fault) as caught:
        device(add(100, 1.0), x=x, out=out)
    assert caught.value.cuda_error == 700 and "out" in caught.value.message


def test_what_a_kernel_reads_before_an_argument_is_a_fault(device: Device) -> None:
    x, out = np.zeros(100, np.float32), np.zeros(100, np.float32)
    with pytest.raises(Fault) as caught:
        device(add(100, 1.0, x_offset=-4), x=x, out=out)
    assert caught.value.cuda_error == 700 and "x" in caught.value.message


def test_a_null_argument_stays_null(device: Device) -> None:
    out = np.zeros(4, np.float32)
    address = device.gpu.register(out, "out")
    plan = LaunchPlan(case=CASE, nodes=(add(4, 1.0),))
    with pytest.raises(Fault, match="null pointer"):
        device.replayer.replay(plan, {"x": 0, "out": address}, random.Random(0))


def test_variables_keep_their_content_between_replays(device: Device) -> None:
    out = np.zeros(1, np.int32)
    to = VariableAddress(name="calls", offset=0)
    node = kernel(
        "count", bytes(16), (pointer(0, "out"), PointerRelocation(at=8, to=to)), block=(1, 1, 1)
    )
    assert device(node, out=out) == 0 and out[0] == 40
    plan = LaunchPlan(case=CASE, nodes=(node, node))
    assert device.replayer.replay(plan, device.addresses, random.Random(0)) == 0
    assert out[0] == 42 and device.replayer.variables["calls"].view(np.int32)[0] == 43


def test_undefined_bytes_are_drawn(device: Device) -> None:
    """A struct's padding: byte 0 and the last four are set, the three between are nobody's."""
    node = kernel(
        "bytes_of", bytes(8) + b"A\0\0\0\1\2\3\4", (pointer(0, "out"),), undefined=((9, 3),)
    )
    seen = set()
    for seed in range(3):
        out = np.zeros(8, np.uint8)
        assert device(node, seed=seed, out=out) == 0
        assert bytes(out[:1]) == b"A" and bytes(out[4:]) == b"\1\2\3\4"
        seen.add(bytes(out[1:4]))
    assert len(seen) == 3


def test_dynamic_shared_memory_up_to_what_a_function_may_ask_for(device: Device) -> None:
    x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    relocations = (pointer(0, "out"), pointer(8, "x"))
    large = kernel("reversed", bytes(16), relocations, dynamic_shared_bytes=227 * 1024)
    assert device(large, x=x, out=out) == 0
    assert np.array_equal(out, x[::-1])


def test_too_much_shared_memory_is_cuda_s_error(device: Device) -> None:
    x, out = np.zeros(128, np.float32), np.zeros(128, np.float32)
    relocations = (pointer(0, "out"), pointer(8, "x"))
    large = kernel("reversed", bytes(16), relocations, dynamic_shared_bytes=228 * 1024)
    assert device(large, x=x, out=out) == 1


def test_a_cooperative_launch_meets(device: Device) -> None:
    out = np.zeros(9, np.int32)
    node = kernel(
        "together",
        bytes(8),
        (pointer(0, "out"),),
        grid=(8, 1, 1),
        block=(32, 1, 1),
        cooperative=True,
    )
    assert device(node, out=out) == 0
    assert (out == 256).all()


def test_memsets_and_copies_of_rows(device: Device) -> None:
    x = np.arange(64, dtype=np.uint8)
    out = np.zeros(64, np.uint8)
    nodes = (
        MemsetNode(target=ArgumentAddress(name="out", offset=2), value=7, width_bytes=4),
        CopyNode(
            target=ArgumentAddress(name="out", offset=16),
            source=ArgumentAddress(name="x", offset=1),
            width_bytes=3,
            height=2,
            target_pitch_bytes=16,
            source_pitch_bytes=8,
        ),
    )
    assert device(*nodes, x=x, out=out) == 0
    expected = np.zeros(64, np.uint8)
    expected[2:6] = 7
    expected[16:19], expected[32:35] = x[1:4], x[9:12]
    assert np.array_equal(out, expected)
    written = device.gpu.written(device.addresses["out"])
    assert set(np.flatnonzero(written)) == {2, 3, 4, 5, 16, 17, 18, 32, 33, 34}
    gpu = spec("h200")
    moved_us = 1e6 * (4 + 2 * 6) / gpu.dram_bytes_per_s
    us = copies_us(LaunchPlan(case=CASE, nodes=nodes), gpu)
    assert us == pytest.approx(2 * second_launch_us(gpu) + moved_us)


@pytest.mark.parametrize("height", [1, 2])
def test_a_memset_past_an_argument_writes_nothing(device: Device, height: int) -> None:
    out = np.zeros(16, np.uint8)
    node = MemsetNode(
        target=ArgumentAddress(name="out", offset=8),
        value=1,
        width_bytes=9 - 4 * (height - 1),
        height=height,
        pitch_bytes=8 * (height - 1),
    )
    assert device(node, out=out) == 1
    assert not out.any()


def test_a_kernel_that_the_file_lacks(device: Device) -> None:
    assert device(kernel("nowhere", b"", ())) == 400
    assert device(kernel("count", bytes(16), (pointer(0, "nobody"),))) == 13


def test_what_the_virtual_gpu_lacks_is_named(device: Device) -> None:
    with pytest.raises(PlanUnsupported) as caught:
        device(kernel("add", bytes(24), (), cluster=(2, 1, 1), grid=(2, 1, 1)))
    assert caught.value.opcode == "cudaLaunchAttributeClusterDimension"
    held = Im2colTensorMap(
        data_type=7,
        address=ArgumentAddress(name="x", offset=0),
        global_dim=(8, 8, 8),
        global_strides=(32, 256),
        lower_corner=(0,),
        upper_corner=(0,),
        channels_per_pixel=1,
        pixels_per_column=1,
        element_strides=(1, 1, 1),
        interleave=0,
        swizzle=0,
        l2_promotion=0,
        oob_fill=0,
    )
    with pytest.raises(PlanUnsupported, match="kernel add: a tensor map is not supported"):
        device(kernel("add", bytes(128), (TensorMapRelocation(at=0, map=held),)))
