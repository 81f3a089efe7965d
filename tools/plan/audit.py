"""A plan held against the cubin, the contract's buffers and the GPU: nothing in it is believed.

The launcher shares the recorder's process, so it can write any plan. The replayer runs only what
passed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from astra_chat.tools.plan.model import (
    MAX_NODES,
    MAX_PARAMETER_BYTES,
    POINTER_BYTES,
    TENSOR_MAP_BYTES,
    Address,
    ArgumentAddress,
    CopyNode,
    Im2colTensorMap,
    KernelNode,
    MemsetNode,
    Node,
    PointerRelocation,
    TensorMapRelocation,
    TiledTensorMap,
)
from astra_chat.tools.plan.stand_ins import Buffers
from astra_chat.tools.virtual_gpu.adapter import (
    MAX_THREADS,
    Dim3,
    blocks_per_sm,
    launch_error,
    stored_parameters,
)
from astra_vgpu.ground.cubin import Cubin, CubinKernel
from astra_vgpu.ground.gpu_specs import GpuSpec

MAX_CLUSTER = 16
"""Blocks, with the attribute for sizes that are not portable."""
MOST_CLUSTERED = 8
"""Blocks of clusters that a multiprocessor holds at once (recorder/host.c)."""
CLUSTERS_FROM = (9, 0)


def audit(nodes: tuple[Node, ...], cubin: Cubin, buffers: Buffers, spec: GpuSpec) -> str:
    """What is wrong with the nodes of a plan, in one line; "" where nothing is."""
    if len(nodes) > MAX_NODES:
        return f"more than {MAX_NODES} launches"
    sizes = {a.name: a.bytes for a in buffers.arguments if a.buffer is not None}
    for index, node in enumerate(nodes, start=1):
        match node:
            case KernelNode():
                fault = next(_kernel(node, cubin, sizes, spec), "")
            case MemsetNode():
                rows = (node.width_bytes, node.height, node.pitch_bytes)
                fault = _range(node.target, *rows, cubin, sizes)
            case CopyNode():
                fault = _copy(node, cubin, sizes)
        if fault:
            return f"launch {index} ({node.kind}): {fault}"
    return ""


def stored_variable(nodes: tuple[Node, ...], ptx: str) -> str:
    """The first module variable that a memset or a copy of a plan writes to, or whose address it
    hands to a kernel of this PTX that may store there; "" for none."""
    for node in nodes:
        if isinstance(node, KernelNode):
            pointers = [r for r in node.relocations if isinstance(r, PointerRelocation)]
            given = {r.at: r.to.name for r in pointers if not isinstance(r.to, ArgumentAddress)}
            stored = given.keys() & stored_parameters(ptx, node.kernel) if given else ()
            names = [given[at] for at in sorted(stored)]
        else:
            names = [] if isinstance(node.target, ArgumentAddress) else [node.target.name]
        if names:
            return names[0]
    return ""


def _copy(node: CopyNode, cubin: Cubin, sizes: dict[str, int]) -> str:
    size = (node.width_bytes, node.height)
    return _range(node.target, *size, node.target_pitch_bytes, cubin, sizes) or _range(
        node.source, *size, node.source_pitch_bytes, cubin, sizes
    )


def _kernel(node: KernelNode, cubin: Cubin, sizes: dict[str, int], spec: GpuSpec) -> Iterator[str]:
    kernel = cubin.kernels.get(node.kernel)
    if kernel is None:
        yield f"the cubin has no kernel {node.kernel}"
        return
    yield from _configuration(node, kernel, spec)
    if len(node.parameters) != kernel.parameter_bytes:
        yield f"{len(node.parameters)} parameter bytes, but the cubin says {kernel.parameter_bytes}"
    if kernel.parameter_bytes > MAX_PARAMETER_BYTES:
        yield f"{kernel.parameter_bytes:,} parameter bytes are more than {MAX_PARAMETER_BYTES:,}"
    yield from _relocations(node, kernel, cubin, sizes)
    end = 0
    for start, length in node.undefined:
        if start < end or start + length > kernel.parameter_bytes:
            yield "undefined bytes outside the parameters"
        end = start + length


def _configuration(node: KernelNode, kernel: CubinKernel, spec: GpuSpec) -> Iterator[str]:
    at_once = None
    if node.cooperative:
        at_once = blocks_per_sm(
            spec,
            registers=kernel.registers,
            threads=prod(node.block),
            shared_bytes=kernel.static_shared_bytes + node.dynamic_shared_bytes,
        )
        if node.cluster or kernel.cluster:
            at_once = min(at_once, MOST_CLUSTERED)
    error = launch_error(
        spec,
        Dim3(*node.grid),
        Dim3(*node.block),
        registers=kernel.registers,
        static_shared_bytes=kernel.static_shared_bytes,
        dynamic_shared_bytes=node.dynamic_shared_bytes,
        max_dynamic_shared_bytes=spec.shared_per_block_optin - kernel.static_shared_bytes,
        max_threads=kernel.max_threads or MAX_THREADS,
        at_once=at_once,
    )
    if error:
        sizes = f"grid {node.grid}, block {node.block}, {node.dynamic_shared_bytes:,} shared bytes"
        yield f"no GPU of this kind can run it: {sizes}, CUDA error {error}"
    if kernel.required_block and kernel.required_block != node.block:
        yield f"its block differs from the required {kernel.required_block}"
    if node.cluster is None:
        return
    if spec.compute < CLUSTERS_FROM:
        yield "clusters need compute capability 9.0"
    if prod(node.cluster) > MAX_CLUSTER:
        yield f"a cluster of {prod(node.cluster)} blocks"
    if any(blocks % extent for blocks, extent in zip(node.grid, node.cluster, strict=True)):
        yield "its grid is not a multiple of its cluster"


def _relocations(
    node: KernelNode, kernel: CubinKernel, cubin: Cubin, sizes: dict[str, int]
) -> Iterator[str]:
    end = 0
    for relocation in node.relocations:
        is_map = isinstance(relocation, TensorMapRelocation)
        length = TENSOR_MAP_BYTES if is_map else POINTER_BYTES
        place = range(relocation.at, relocation.at + length)
        if relocation.at < end or relocation.at % POINTER_BYTES:
            yield f"a relocation at byte {relocation.at}: misaligned or overlapping"
        if not any(
            p.offset <= place.start and place.stop <= p.offset + p.bytes for p in kernel.parameters
        ):
            yield f"a relocation at byte {relocation.at}, outside all parameters"
        end = place.stop
        if isinstance(relocation, PointerRelocation):
            yield from _pointer(relocation.to, cubin, sizes)
        else:
            yield from _map(relocation.map, cubin, sizes)


def _map(
    held: TiledTensorMap | Im2colTensorMap, cubin: Cubin, sizes: dict[str, int]
) -> Iterator[str]:
    rank = len(held.global_dim)
    lengths = [(held.global_strides, rank - 1), (held.element_strides, rank)]
    if isinstance(held, TiledTensorMap):
        lengths.append((held.box_dim, rank))
    else:
        lengths += [(held.lower_corner, rank - 2), (held.upper_corner, rank - 2)]
    if any(len(values) != wanted for values, wanted in lengths):
        yield "a tensor map whose lists do not match its rank"
    yield from _address(held.address, cubin, sizes)


def _pointer(address: Address, cubin: Cubin, sizes: dict[str, int]) -> Iterator[str]:
    """It may lie before its argument: it is the kernel that uses it (`relocate`)."""
    if isinstance(address, ArgumentAddress) and address.offset < 0:
        address = address.model_copy(update={"offset": 0})
    yield from _address(address, cubin, sizes)


def _address(address: Address, cubin: Cubin, sizes: dict[str, int]) -> Iterator[str]:
    if fault := _range(address, 0, 1, 0, cubin, sizes):
        yield fault


def _range(
    address: Address, width: int, height: int, pitch: int, cubin: Cubin, sizes: dict[str, int]
) -> str:
    """Whether rows lie inside what they start in."""
    if isinstance(address, ArgumentAddress):
        size = sizes.get(address.name)
    else:
        variable = cubin.variables.get(address.name)
        size = variable.bytes if variable else None
    if size is None:
        return f"there is no {address.kind} {address.name}"
    if address.offset < 0:
        return f"{-address.offset:,} bytes before {address.name}"
    if height > 1 and pitch < width:
        return "rows that overlap"
    end = address.offset + pitch * (height - 1) + width
    if end > size:
        return f"byte {end:,} of {address.name}, which has {size:,}"
    return ""
