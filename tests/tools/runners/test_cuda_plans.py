"""Plans on a real GPU: every kind of node and launch attribute, alone and in a CUDA graph."""

from __future__ import annotations

import ctypes
import random
import struct
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.plan.model import (
    ArgumentAddress,
    CopyNode,
    KernelNode,
    LaunchPlan,
    MemsetNode,
    PointerRelocation,
    TensorMapRelocation,
    TiledTensorMap,
)
from astra_chat.tools.plan.record import record
from astra_chat.tools.plan.stand_ins import ALIGNMENT
from astra_chat.tools.runners.arguments import launch
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.buffer_layout import buffer_bytes
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.folder import find_task, task_names
from astra_chat.tools.task.placement import layout
from astra_chat.tools.types import Case, Device
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.ground.toolkit import find_toolkit

VIRTUAL = Device(kind="virtual", name="virtual GPU", arch="sm_90", spec="h200")
"""A build for it is linked with the fake runtime, so that its launcher can be recorded."""
N = 1000
CASE = Case(dims={"n": N}, dtype="float32")
DRAW = random.Random(1)
FLOAT32, NO_SWIZZLE, L2_128 = 7, 0, 2
"""CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapL2promotion, as cuda.h numbers them."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    source = Path(__file__).parent / "data" / "plans.cu"
    cubin = tmp_path_factory.mktemp("plans") / "plans.cubin"
    command = [str(find_toolkit().nvcc), "-cubin", "-arch=sm_90", "-std=c++17"]
    subprocess.run([*command, "-o", str(cubin), str(source)], check=True)
    return cubin.read_bytes()


@pytest.fixture
def cubin(image: bytes) -> Iterator[Any]:
    from astra_chat.tools.runners import cuda_plans

    torch = pytest.importorskip("torch")
    torch.zeros(1, device="cuda")
    cuda_plans.use_device(0)
    loaded = cuda_plans.LoadedCubin(image)
    yield loaded
    torch.cuda.synchronize()


@pytest.fixture(params=["stream", "graph"])
def run(request: pytest.FixtureRequest, cubin: Any) -> Callable[..., None]:
    """Runs nodes over tensors, on a stream or captured and replayed once."""
    import torch

    from astra_chat.tools.runners import cuda_plans

    def on(nodes: tuple[Any, ...], **tensors: torch.Tensor) -> None:
        addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
        plan = LaunchPlan.model_validate_json(LaunchPlan(case=CASE, nodes=nodes).model_dump_json())
        enqueue = cuda_plans.bind(cubin, plan, addresses, DRAW)
        torch.cuda.synchronize()
        if request.param == "graph":
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                enqueue(torch.cuda.current_stream().cuda_stream)
            graph.replay()
        else:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                enqueue(stream.cuda_stream)
        torch.cuda.synchronize()

    return on


def test_parameters_are_filled_in_and_undefined_bytes_drawn() -> None:
    from astra_chat.tools.runners.cuda_plans import parameter_bytes

    node = kernel("scale", [("out", 8)], b"\x01\x02\x03\x04" + bytes(4))
    node = node.model_copy(update={"undefined": ((12, 4),)})

    def filled(seed: int) -> bytes:
        return parameter_bytes(node, lambda to: 0x7000 + to.offset, random.Random(seed))

    assert filled(1)[:12] == (0x7008).to_bytes(8, "little") + b"\x01\x02\x03\x04"
    assert filled(1) == filled(1) != filled(2) and len(filled(1)) == 16


@pytest.mark.gpu
def test_kernel_with_offsets_and_scalars(run: Any) -> None:
    import torch

    given = torch.randn(N, device="cuda")
    out = torch.full((N + 8,), -1.0, device="cuda")
    node = kernel("scale", [("out", 8), ("given", 0)], struct.pack("<fi", 2.5, N - 8), blocks=4)
    run((node,), out=out, given=given)
    assert torch.equal(out[2 : N - 6], given[: N - 8] * 2.5)
    assert bool((out[:2] == -1).all()) and bool((out[N - 6 :] == -1).all())


@pytest.mark.gpu
def test_memset_copy_and_their_rows(run: Any) -> None:
    import torch

    source = torch.arange(64 * 16, dtype=torch.uint8, device="cuda")
    target = torch.zeros(64 * 32, dtype=torch.uint8, device="cuda")
    to = ArgumentAddress(name="target", offset=0)
    run(
        (
            MemsetNode(target=to, value=9, width_bytes=64 * 32),
            MemsetNode(target=to, value=5, width_bytes=4, height=64, pitch_bytes=32),
            CopyNode(
                target=ArgumentAddress(name="target", offset=8),
                source=ArgumentAddress(name="source", offset=0),
                width_bytes=16,
                height=64,
                target_pitch_bytes=32,
                source_pitch_bytes=16,
            ),
            CopyNode(
                target=ArgumentAddress(name="target", offset=28),
                source=ArgumentAddress(name="source", offset=1),
                width_bytes=4,
            ),
        ),
        target=target,
        source=source,
    )
    rows = target.view(64, 32)
    assert bool((rows[:, :4] == 5).all()) and bool((rows[:, 4:8] == 9).all())
    assert torch.equal(rows[:, 8:24], source.view(64, 16))
    assert rows[0, 28:].tolist() == [1, 2, 3, 4] and bool((rows[1:, 24:] == 9).all())


@pytest.mark.gpu
def test_programmatic_dependent_launch(run: Any) -> None:
    import torch

    given, between, out = (torch.randn(N, device="cuda") for _ in range(3))
    first = kernel("produce", [("between", 0), ("given", 0)], struct.pack("<i", N), blocks=4)
    second = kernel("consume", [("out", 0), ("between", 0)], struct.pack("<i", N), blocks=4)
    programmatic = second.model_copy(update={"programmatic": True})
    run((first, programmatic), given=given, between=between, out=out)
    assert torch.equal(out, (given + 1) * 2)


@pytest.mark.gpu
def test_cooperative_launch_with_dynamic_shared_memory(run: Any) -> None:
    import torch

    given, partial = torch.ones(N, device="cuda"), torch.zeros(16, device="cuda")
    out = torch.zeros(16, device="cuda")
    pointers = [("out", 0), ("partial", 0), ("given", 0)]
    node = kernel("all_sums", pointers, struct.pack("<i", N), blocks=16, threads=64)
    node = node.model_copy(update={"cooperative": True, "dynamic_shared_bytes": 100 * 1024})
    run((node,), out=out, partial=partial, given=given)
    assert out.tolist() == [N] * 16


@pytest.mark.gpu
@pytest.mark.parametrize("size", [2, 16])
def test_cluster(run: Any, size: int) -> None:
    import torch

    given, out = torch.arange(16.0, device="cuda"), torch.zeros(16, device="cuda")
    node = kernel("neighbour", [("out", 0), ("given", 0)], b"", blocks=16, threads=32)
    run((node.model_copy(update={"cluster": (size, 1, 1)}),), out=out, given=given)
    assert torch.equal(out, given.view(-1, size).roll(-1, 1).flatten())


@pytest.mark.gpu
def test_tensor_map(cubin: Any, run: Any) -> None:
    """The cubin aligns a map in constant memory, so it need not lie at parameter byte 0."""
    import torch

    given = torch.randn(64, 96, device="cuda")
    out = torch.zeros(16, 32, device="cuda")
    tiled = TiledTensorMap(
        data_type=FLOAT32,
        address=ArgumentAddress(name="given", offset=0),
        global_dim=(96, 64),
        global_strides=(96 * 4,),
        box_dim=(32, 16),
        element_strides=(1, 1),
        interleave=0,
        swizzle=NO_SWIZZLE,
        l2_promotion=L2_128,
        oob_fill=0,
    )
    from astra_chat.tools.runners.cuda_plans import call

    (map_at, _), (out_at, _) = (
        call("cuFuncGetParamInfo", cubin.function("tile"), index) for index in range(2)
    )
    node = KernelNode(
        kernel="tile",
        grid=(1, 1, 1),
        block=(64, 1, 1),
        parameters=bytes(out_at + 8),
        relocations=(TensorMapRelocation(at=map_at, map=tiled), pointer(out_at, "out", 0)),
    )
    run((node,), given=given, out=out)
    assert torch.equal(out, given[8:24, 32:64])


@pytest.mark.gpu
def test_what_the_cubin_lacks_or_the_driver_refuses(cubin: Any) -> None:
    from astra_chat.tools.runners.cuda_plans import DriverError, LoadedCubin, bind

    with pytest.raises(DriverError, match="CUDA_ERROR_NOT_FOUND"):
        bind(cubin, LaunchPlan(case=CASE, nodes=(kernel("gone", [], b""),)), {}, DRAW)
    with pytest.raises(DriverError, match="cuModuleLoadData"):
        LoadedCubin(b"\x7fELF" + bytes(200))
    node = kernel("neighbour", [("out", 0), ("given", 0)], b"", threads=2048)
    enqueue = bind(cubin, LaunchPlan(case=CASE, nodes=(node,)), {"out": 0, "given": 0}, DRAW)
    with pytest.raises(DriverError, match="CUDA_ERROR_INVALID_VALUE"):
        enqueue(0)


@pytest.mark.gpu
@pytest.mark.parametrize("name", task_names())
def test_a_plan_does_what_its_launcher_does(name: str) -> None:
    """Plan and launcher leave equal bytes, for the baseline on check cases (odd sizes, offsets) and
    two timed ones; in any order for the task whose kernels place numbers as atomics come."""
    import torch

    from astra_chat.tools.runners import cuda_plans

    task = find_task(name)
    cases = [*task.check, *(case for case, _ in task.bench[:2])]
    hosted, recordable = (
        build(task, task.baseline, device) for device in (pick_device("cuda"), VIRTUAL)
    )
    assert isinstance(hosted, Build) and isinstance(recordable, Build)
    plans = record(recordable, task, cases, spec(str(VIRTUAL.spec)), DRAW)
    assert isinstance(plans, tuple), plans
    torch.zeros(1, device="cuda")
    cuda_plans.use_device(0)
    cubin = cuda_plans.LoadedCubin((recordable.folder / "kernel.cubin").read_bytes())
    library = ctypes.CDLL(str(hosted.library))
    for case, plan in zip(cases, plans, strict=True):
        lies = layout(task, case)
        whole = [
            torch.zeros(block.bytes + block.shift + ALIGNMENT, dtype=torch.uint8, device="cuda")
            for block in lies.blocks
        ]
        blocks = [
            tensor[-tensor.data_ptr() % ALIGNMENT + block.shift :]
            for tensor, block in zip(whole, lies.blocks, strict=True)
        ]
        views = [blocks[number][lies.span(i)] for i, (number, _) in enumerate(lies.places)]
        inputs = [
            torch.randint(0, 60, view.shape, dtype=torch.uint8, device="cuda")
            if arg.index is None
            else torch.from_numpy(counted(arg, case)).cuda()
            for arg, view in zip(task.args, views, strict=True)
        ]
        addresses = [view.data_ptr() for view in views]
        enqueue = cuda_plans.bind(
            cubin, plan, dict(zip((a.name for a in task.args), addresses, strict=True)), DRAW
        )
        results = []
        for run in (partial(launch, library, task, case, addresses), enqueue):
            for view, content in zip(views, inputs, strict=True):
                view.copy_(content)
            run(torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
            results.append([in_order(name, tensor) for tensor in whole])
        for block, left, right in zip(lies.blocks, *results, strict=True):
            assert torch.equal(left, right), (case.label, block.members)
        assert any(not torch.equal(v, i) for v, i in zip(views, inputs, strict=True))


def counted(arg: Arg, case: Case) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """An index argument's legal numbers by turns: no two rows of a cache are written twice."""
    assert arg.index is not None
    least, below = arg.index.bounds(arg.names_in(case))
    dtype = np.dtype(arg.dtype_of(case))
    count = buffer_bytes(arg, case) // dtype.itemsize
    return (least + np.arange(count) % (below - least)).astype(dtype).view(np.uint8)


def in_order(name: str, content: Any) -> Any:
    import torch

    if name != "moe_align_block_size":
        return content.clone()
    return content.view(torch.int32).sort().values


def pointer(at: int, name: str, offset: int) -> PointerRelocation:
    return PointerRelocation(at=at, to=ArgumentAddress(name=name, offset=offset))


def kernel(
    name: str,
    pointers: list[tuple[str, int]],
    scalars: bytes,
    *,
    blocks: int = 1,
    threads: int = 256,
) -> KernelNode:
    """A launch whose parameters are pointers (argument, offset) and then scalars."""
    return KernelNode(
        kernel=name,
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        parameters=bytes(8 * len(pointers)) + scalars,
        relocations=tuple(pointer(8 * i, *to) for i, to in enumerate(pointers)),
    )
