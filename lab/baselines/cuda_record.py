"""Trusted host code captured into CUDA graphs, for launch plans of kernels that are not built here.

Each call of a case is captured with its arguments at other addresses (lab/baselines/captured.py).
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Mapping
from typing import Any

from cuda.bindings import driver as cuda

from astra_chat.tools.plan import report
from astra_chat.tools.runners.arguments import launch, limit_files_and_cores
from astra_chat.tools.runners.cuda_graph import Captured, NodeKernel, chain, launch_attributes
from astra_chat.tools.runners.cuda_once import Driver
from astra_chat.tools.runners.cuda_placed import PlacedArguments
from astra_chat.tools.runners.cuda_plans import DriverError, call
from astra_chat.tools.runners.cuda_profiled import Marker
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.reporter import Reporter
from astra_chat.tools.task.buffer_layout import buffer_bytes, poisoned
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import Case
from lab.baselines.captured import Capture, Captures, RecordRequest

CAPTURES = 3
MARKER = "astra_before_the_launcher"
SPARE = range(12, 25)
"""Before each argument lie up to 16 MB, drawn; powers of two."""
POINTER_BYTES = 8


def main() -> None:
    reporter = Reporter()
    limit_files_and_cores()
    request = RecordRequest.model_validate(reporter.request)
    task, driver = load_task(request.task), Driver(request.index)
    marker = Marker(driver, MARKER)
    lock(reporter.pipe)
    library = ctypes.CDLL(str(request.library))
    draws = request.seed.of("spare").random()
    for index, case in enumerate(request.cases):
        try:
            found = [_captured(driver, marker, task, case, library, draws) for _ in range(CAPTURES)]
            captures = Captures(index=index, captures=tuple(found))
        except RuntimeError as error:
            captures = Captures(index=index, refused=str(error))
        driver.free()
        reporter.send("case", **captures.model_dump(mode="json"))


def _captured(
    driver: Driver,
    marker: Marker,
    task: Task,
    case: Case,
    library: ctypes.CDLL,
    draws: random.Random,
) -> Capture:
    """One call with buffers of its own, which stay until the case is done. Raises RuntimeError for
    what no plan can hold."""

    def spared() -> int:
        driver.spare(2 ** draws.choice(SPARE))
        return 0

    contents = [poisoned(buffer_bytes(arg, case), 0) for arg in task.args]
    given = PlacedArguments(driver, task, case, contents, 0, spared).addresses
    addresses = dict(zip((arg.name for arg in task.args), given, strict=True))
    _require(launch(library, task, case, given, driver.stream))  # it may load modules now
    call("cuCtxSynchronize")
    driver.begin()
    marker.enqueue()
    status = launch(library, task, case, given, driver.stream)
    graph = driver.end()
    _require(status)
    nodes = tuple(_as_reported(node) for node in chain(graph))
    for node in nodes:
        if isinstance(node, report.Kernel):
            _require_arguments_only(node, addresses, task, case)
    call("cuGraphDestroy", graph)
    return Capture(arguments=addresses, nodes=nodes)


def _as_reported(captured: Captured) -> report.AnyNode:
    """A node as the recorder reports it, with the addresses that were captured. Raises RuntimeError
    for what no plan can hold."""
    if captured.kind == "KERNEL":
        return _kernel(captured)
    if captured.kind == "MEMSET":
        return _memset(captured.node)
    if captured.kind == "MEMCPY":
        return _copy(captured.node)
    raise RuntimeError(f"a {captured.kind.lower()} node, which a launch plan cannot contain")


def _kernel(captured: Captured) -> report.Kernel:
    params = call("cuGraphKernelNodeGetParams", captured.node)
    function = NodeKernel(params)
    given = dict(function.parameters(int(params.kernelParams)))
    cluster, cooperative = launch_attributes(captured.node)
    of = cuda.CUfunction_attribute
    return report.Kernel(
        kind="kernel",
        kernel=function.name,
        grid=(params.gridDimX, params.gridDimY, params.gridDimZ),
        block=(params.blockDimX, params.blockDimY, params.blockDimZ),
        dynamic_shared_bytes=params.sharedMemBytes,
        shared_carveout=function.attribute(of.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT),
        cluster_scheduling=function.attribute(
            of.CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
        ),
        programmatic=captured.programmatic,
        cooperative=cooperative,
        cluster=cluster if all(cluster) else None,
        maps=(),
        parameters=bytes(given.get(at, 0) for at in range(max(given, default=-1) + 1)),
    )


def _memset(node: Any) -> report.Memset:
    params = call("cuGraphMemsetNodeGetParams", node)
    values = set((params.value & (1 << 8 * params.elementSize) - 1).to_bytes(params.elementSize))
    if len(values) != 1:
        raise RuntimeError("a memset that does not repeat a single byte")
    return report.Memset(
        kind="memset",
        target=int(params.dst),
        value=values.pop(),
        width_bytes=params.width * params.elementSize,
        height=params.height,
        pitch_bytes=params.pitch if params.height > 1 else 0,
    )


def _copy(node: Any) -> report.Copy:
    params = call("cuGraphMemcpyNodeGetParams", node)
    device = (cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE, cuda.CUmemorytype.CU_MEMORYTYPE_UNIFIED)
    if params.srcMemoryType not in device or params.dstMemoryType not in device or params.Depth > 1:
        raise RuntimeError("a copy that is not between two places in device memory")
    rows = params.Height > 1
    return report.Copy(
        kind="copy",
        target=int(params.dstDevice),
        source=int(params.srcDevice),
        width_bytes=params.WidthInBytes,
        height=params.Height,
        target_pitch_bytes=params.dstPitch if rows else 0,
        source_pitch_bytes=params.srcPitch if rows else 0,
    )


def _require(status: int) -> None:
    if status:
        raise RuntimeError(f"the launcher returned CUDA error {status}")


def _require_arguments_only(
    node: report.Kernel, addresses: Mapping[str, int], task: Task, case: Case
) -> None:
    """A pointer to other device memory would be the same in all captures, and no number."""
    places = [
        range(addresses[arg.name], addresses[arg.name] + buffer_bytes(arg, case) + 1)
        for arg in task.args
    ]
    for at in range(0, len(node.parameters) - POINTER_BYTES + 1, POINTER_BYTES):
        value = int.from_bytes(node.parameters[at : at + POINTER_BYTES], "little")
        if not any(value in place for place in places) and _is_memory(value):
            raise RuntimeError(
                f"parameter byte {at} of kernel {node.kernel} points to device memory that is not"
                " an argument"
            )


def _is_memory(address: int) -> bool:
    try:
        of = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        call("cuPointerGetAttribute", of, address)
    except DriverError:
        return False
    return True


if __name__ == "__main__":
    main()
