"""Launch plans on a real GPU: the driver loads a cubin, and its kernels are launched by plan.

No host code of a candidate is in this process: what is launched, with which parameters, stands in
the plan (tools/plan/model.py). A plan may be launched on any stream, also while the stream is being
captured into a CUDA graph.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuda.bindings import driver

from astra_chat.tools.plan.model import (
    TENSOR_MAP_BYTES,
    Address,
    CopyNode,
    KernelNode,
    LaunchPlan,
    MemsetNode,
    Relocation,
    TensorMap,
    TiledTensorMap,
)
from astra_chat.tools.run.protocol import CallRequest
from astra_chat.tools.task.folder import Task
from astra_vgpu.ground.cubin import read_cubin

INVALID_VALUE = 1
"""CUDA_ERROR_INVALID_VALUE: also the driver's error for a parameter that a kernel does not have."""
LAUNCH_FAILURE = 719
"""cudaErrorLaunchFailure, where torch does not say which error it was."""
PORTABLE_CLUSTER_BLOCKS = 8
STATIC_SHARED_BYTES = 48 * 1024
"""Dynamic shared memory beyond this has to be allowed for each function."""

Enqueue = Callable[[int], None]
"""Puts work on the stream of that address."""


class DriverError(RuntimeError):
    """A call of the CUDA driver failed. `error_code` is its CUresult, equal to cudaError_t where
    both have the error."""

    def __init__(self, call: str, code: Any) -> None:
        super().__init__(f"{call}: {code.name}")
        self.error_code = int(code)


def status_of(error: RuntimeError) -> int:
    """The cudaError_t of a call that failed, by the driver or by torch."""
    return int(getattr(error, "error_code", LAUNCH_FAILURE))


def call(name: str, *arguments: Any) -> Any:
    """Call the driver; what it returns beside the status. Raises DriverError."""
    status, *values = getattr(driver, name)(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DriverError(name, status)
    return values[0] if len(values) == 1 else values


def use_device(index: int) -> None:
    """Make the device's primary context current in this thread, as torch and the runtime do."""
    call("cuInit", 0)
    call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", index)))


def parameter_layout(query: str, handle: Any) -> list[tuple[int, int]]:
    """Offset and bytes of each parameter of a kernel, by cuFuncGetParamInfo or, where `handle` is
    a CUkernel, cuKernelGetParamInfo. Raises DriverError."""
    layout = list[tuple[int, int]]()
    while True:
        try:
            offset, size = call(query, handle, len(layout))
        except DriverError as error:
            if error.error_code != INVALID_VALUE:
                raise
            return layout
        layout.append((int(offset), int(size)))


class LoadedCubin:
    """A cubin, or a text of PTX, that the driver has loaded into the current context."""

    def __init__(self, image: bytes) -> None:
        """Raises DriverError for a cubin of another architecture or a damaged one."""
        self._module = call("cuModuleLoadData", image)
        self._functions: dict[str, Any] = {}
        self._layouts: dict[str, list[tuple[int, int]]] = {}

    def function(self, name: str) -> Any:
        """A kernel by its mangled name. Raises DriverError if it is not in the cubin."""
        if name not in self._functions:
            self._functions[name] = call("cuModuleGetFunction", self._module, name.encode())
        return self._functions[name]

    def layout(self, name: str) -> list[tuple[int, int]]:
        """Offset and bytes of each parameter of a kernel. Raises DriverError."""
        if name not in self._layouts:
            self._layouts[name] = parameter_layout("cuFuncGetParamInfo", self.function(name))
        return self._layouts[name]

    def variable(self, name: str) -> tuple[int, int]:
        """Address and bytes of a module variable. Raises DriverError if it is not in the cubin."""
        address, size = call("cuModuleGetGlobal", self._module, name.encode())
        return int(address), int(size)


class Kernels:
    """The device code of one build."""

    def __init__(self, cubin: Path) -> None:
        """Raises DriverError for a cubin that the driver refuses, and ElfError."""
        image = cubin.read_bytes()
        self._cubin = LoadedCubin(image)
        self.variables = {name: self._cubin.variable(name) for name in read_cubin(image).variables}
        """Address and bytes of each module variable."""

    def function(self, name: str) -> Any:
        """A kernel by its mangled name."""
        return self._cubin.function(name)

    def bind(
        self, task: Task, call: CallRequest, plan: LaunchPlan, addresses: Sequence[int]
    ) -> Enqueue:
        """A plan over the arguments at these addresses, in the order of the task's args."""
        names = (arg.name for arg in task.args)
        draws = call.seed.of("undefined").random()
        return bind(self._cubin, plan, dict(zip(names, addresses, strict=True)), draws)


def bind(
    cubin: LoadedCubin, plan: LaunchPlan, addresses: Mapping[str, int], draw: random.Random
) -> Enqueue:
    """The plan's nodes over these buffers, ready to be put on a stream in their order.

    `addresses`: of each argument's first element, by the argument's name. Undefined parameter bytes
    take values of `draw`. Raises DriverError for a node that the driver refuses, when it is
    launched or before.
    """
    place = _places(cubin, addresses)
    steps = [_step(cubin, node, place, draw) for node in plan.nodes]

    def enqueue(stream: int) -> None:
        for step in steps:
            step(stream)

    return enqueue


def _places(cubin: LoadedCubin, addresses: Mapping[str, int]) -> Callable[[Address], int]:
    def place(address: Address) -> int:
        known = addresses[address.name] if address.kind == "argument" else None
        return (cubin.variable(address.name)[0] if known is None else known) + address.offset

    return place


def _step(
    cubin: LoadedCubin,
    node: KernelNode | MemsetNode | CopyNode,
    place: Callable[[Address], int],
    draw: random.Random,
) -> Enqueue:
    match node:
        case KernelNode():
            return _launch(cubin, node, place, draw)
        case MemsetNode():
            return _memset(node, place(node.target))
        case CopyNode():
            return _copy(node, place(node.target), place(node.source))


def _launch(
    cubin: LoadedCubin, node: KernelNode, place: Callable[[Address], int], draw: random.Random
) -> Enqueue:
    function = cubin.function(node.kernel)
    _allow(function, node)
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = node.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = node.block
    config.sharedMemBytes = node.dynamic_shared_bytes
    attributes = _attributes(node)
    config.attrs, config.numAttrs = attributes, len(attributes)
    content = parameter_bytes(node, place, draw)
    buffer = ctypes.create_string_buffer(content, max(1, len(content)))
    offsets = [offset for offset, _ in cubin.layout(node.kernel)]
    # One pointer a parameter, into the buffer: handed over as a whole (CU_LAUNCH_PARAM_BUFFER_*),
    # a captured cooperative launch is refused (seen with driver 580).
    pointers = (ctypes.c_void_p * max(1, len(offsets)))(
        *(ctypes.addressof(buffer) + offset for offset in offsets)
    )

    current = -1

    def enqueue(stream: int, kept: Any = buffer) -> None:
        nonlocal current
        if stream != current:
            config.hStream, current = driver.CUstream(stream), stream
        call("cuLaunchKernelEx", config, function, ctypes.addressof(pointers), 0)

    return enqueue


def parameter_bytes(
    node: KernelNode, place: Callable[[Address], int], draw: random.Random
) -> bytes:
    """The kernel's parameters: addresses and tensor maps filled in, undefined bytes drawn."""
    content = bytearray(node.parameters)
    for start, length in node.undefined:
        content[start : start + length] = draw.randbytes(length)
    for relocation in node.relocations:
        value = _relocated(relocation, place)
        content[relocation.at : relocation.at + len(value)] = value
    return bytes(content)


def _relocated(relocation: Relocation, place: Callable[[Address], int]) -> bytes:
    if relocation.kind == "pointer":
        return place(relocation.to).to_bytes(8, "little")
    encoded = _tensor_map(relocation.map, place(relocation.map.address))
    return ctypes.string_at(encoded.getPtr(), TENSOR_MAP_BYTES)


def _tensor_map(of: TensorMap, address: int) -> Any:
    words, longs = _wrapped(driver.cuuint32_t), _wrapped(driver.cuuint64_t)
    kind = driver.CUtensorMapDataType(of.data_type)
    rank, dims, strides = len(of.global_dim), longs(of.global_dim), longs(of.global_strides)
    modes = (
        driver.CUtensorMapInterleave(of.interleave),
        driver.CUtensorMapSwizzle(of.swizzle),
        driver.CUtensorMapL2promotion(of.l2_promotion),
        driver.CUtensorMapFloatOOBfill(of.oob_fill),
    )
    if isinstance(of, TiledTensorMap):
        return call(
            "cuTensorMapEncodeTiled",
            kind,
            rank,
            address,
            dims,
            strides,
            words(of.box_dim),
            words(of.element_strides),
            *modes,
        )
    return call(
        "cuTensorMapEncodeIm2col",
        kind,
        rank,
        address,
        dims,
        strides,
        list(of.lower_corner),
        list(of.upper_corner),
        of.channels_per_pixel,
        of.pixels_per_column,
        words(of.element_strides),
        *modes,
    )


def _wrapped(kind: Any) -> Callable[[Sequence[int]], list[Any]]:
    return lambda values: [kind(value) for value in values]


def _allow(function: Any, node: KernelNode) -> None:
    """What a function must be allowed before it is launched like this."""
    allowed = driver.CUfunction_attribute
    if node.dynamic_shared_bytes > STATIC_SHARED_BYTES:
        of = allowed.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        now = call("cuFuncGetAttribute", of, function)
        call("cuFuncSetAttribute", function, of, max(now, node.dynamic_shared_bytes))
    x, y, z = node.cluster or (1, 1, 1)
    if x * y * z > PORTABLE_CLUSTER_BLOCKS:
        of = allowed.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        call("cuFuncSetAttribute", function, of, 1)


def _attributes(node: KernelNode) -> list[Any]:
    ids = driver.CUlaunchAttributeID
    chosen = []
    if node.programmatic:
        attribute = _attribute(ids.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
        attribute.value.programmaticStreamSerializationAllowed = 1
        chosen.append(attribute)
    if node.cooperative:
        attribute = _attribute(ids.CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        attribute.value.cooperative = 1
        chosen.append(attribute)
    if node.cluster:
        attribute = _attribute(ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        dim = attribute.value.clusterDim
        dim.x, dim.y, dim.z = node.cluster
        chosen.append(attribute)
    if node.cluster_scheduling:
        attribute = _attribute(ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
        policy = driver.CUclusterSchedulingPolicy(node.cluster_scheduling)
        attribute.value.clusterSchedulingPolicyPreference = policy
        chosen.append(attribute)
    if node.shared_carveout >= 0:
        attribute = _attribute(ids.CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
        attribute.value.sharedMemCarveout = node.shared_carveout
        chosen.append(attribute)
    return chosen


def _attribute(of: Any) -> Any:
    attribute = driver.CUlaunchAttribute()
    attribute.id = of
    return attribute


def _memset(node: MemsetNode, target: int) -> Enqueue:
    def enqueue(stream: int) -> None:
        if node.height == 1:
            call("cuMemsetD8Async", target, node.value, node.width_bytes, stream)
        else:
            call(
                "cuMemsetD2D8Async",
                target,
                node.pitch_bytes,
                node.value,
                node.width_bytes,
                node.height,
                stream,
            )

    return enqueue


def _copy(node: CopyNode, target: int, source: int) -> Enqueue:
    rows = driver.CUDA_MEMCPY2D()
    device = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    rows.srcMemoryType = rows.dstMemoryType = device
    rows.srcDevice, rows.dstDevice = source, target
    rows.srcPitch, rows.dstPitch = node.source_pitch_bytes, node.target_pitch_bytes
    rows.WidthInBytes, rows.Height = node.width_bytes, node.height

    def enqueue(stream: int) -> None:
        if node.height == 1:
            call("cuMemcpyDtoDAsync", target, source, node.width_bytes, stream)
        else:
            call("cuMemcpy2DAsync", rows, stream)

    return enqueue
