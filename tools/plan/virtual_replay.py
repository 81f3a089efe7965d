"""Runs launch plans on the virtual GPU: no host code of a candidate is in the process.

Device memory is host memory at its own address, so a relocation is filled in with the address of a
NumPy array.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from numpy.lib.stride_tricks import as_strided

from astra_chat.tools.plan.model import (
    POINTER_BYTES,
    Address,
    ArgumentAddress,
    CopyNode,
    KernelNode,
    LaunchPlan,
    MemsetNode,
    Node,
    PointerRelocation,
)
from astra_chat.tools.task.buffer_layout import Bytes, Mask
from astra_chat.tools.virtual_gpu.adapter import (
    INVALID_SYMBOL,
    INVALID_VALUE,
    UNKNOWN_FUNCTION,
    CallsOnGpu,
    Dim3,
    PtxUnsupported,
    VirtualGpu,
    second_launch_us,
)
from astra_vgpu.ground.gpu_specs import GpuSpec


class PlanUnsupported(PtxUnsupported):
    """A launch that the virtual GPU cannot make; named as CUDA names it."""

    def __init__(self, what: str, *, kernel: str, call: str) -> None:
        super().__init__(what, kernel=kernel, opcode=call, line=0)
        self.args = (f"kernel {kernel}: {what} is not supported on the virtual GPU ({call})",)


class _NodeFailed(Exception):
    """A node fails with this cudaError_t."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class _Rows:
    """Device memory of a memset or a copy."""

    data: Bytes
    """View of it: uint8 [height, width]."""
    written: Mask | None


class VirtualReplayer:
    """One kernel file on a virtual GPU, and the plans that launch its kernels."""

    def __init__(
        self,
        gpu: VirtualGpu,
        ptx: Path,
        resources: Mapping[str, tuple[int, int]],
        kernels: Collection[str] | None = None,
    ) -> None:
        """`resources`, `kernels`: see VirtualGpu.load_kernels; what that raises, this raises."""
        self._gpu = gpu
        self._calls = CallsOnGpu(gpu)
        self._loaded = gpu.load_kernels(ptx, resources, kernels)
        self._loaded.dynamic_limits.update(
            {k: gpu.spec.shared_per_block_optin - static for k, (_, static) in resources.items()}
        )

    @property
    def variables(self) -> Mapping[str, Bytes]:
        """The kernel file's __device__ and __constant__ variables, by mangled name."""
        return self._loaded.variables

    def replay(self, plan: LaunchPlan, addresses: Mapping[str, int], rng: random.Random) -> int:
        """Run all nodes of a plan in their order; 0, or the cudaError_t that ended them.

        `addresses` holds the device address of every argument, 0 for a null pointer. Parameter
        bytes that the launcher left undefined are drawn from `rng`. Reports, warnings and written
        bytes are the GPU's. Raises Fault and PtxUnsupported.
        """
        for node in plan.nodes:
            try:
                status = self._run(node, addresses, rng)
            except _NodeFailed as failed:
                status = failed.status
            if status:
                return status
        return 0

    def _run(self, node: Node, addresses: Mapping[str, int], rng: random.Random) -> int:
        match node:
            case KernelNode():
                return self._launch(node, addresses, rng)
            case MemsetNode():
                target = self._rows(
                    node.target, node.width_bytes, node.height, node.pitch_bytes, addresses
                )
                self._fill(target, node.value)
            case CopyNode():
                size = node.width_bytes, node.height
                source = self._rows(node.source, *size, node.source_pitch_bytes, addresses)
                target = self._rows(node.target, *size, node.target_pitch_bytes, addresses)
                self._fill(target, source.data.copy())
        return 0

    def _launch(self, node: KernelNode, addresses: Mapping[str, int], rng: random.Random) -> int:
        kernel = self._loaded.module.kernels.get(node.kernel)
        if kernel is None:
            return UNKNOWN_FUNCTION
        if node.cluster is not None:
            raise PlanUnsupported(
                "a launch with a cluster",
                kernel=node.kernel,
                call="cudaLaunchAttributeClusterDimension",
            )
        params = self._parameters(node, addresses, rng)
        return self._calls.launch_packed(
            self._loaded,
            node.kernel,
            Dim3(*node.grid),
            Dim3(*node.block),
            node.dynamic_shared_bytes,
            params.ljust(kernel.param_bytes, b"\0"),
            node.cooperative,
            node.programmatic,
        )

    def _parameters(
        self, node: KernelNode, addresses: Mapping[str, int], rng: random.Random
    ) -> bytes:
        """The kernel's parameters with this replay's addresses."""
        filled = bytearray(node.parameters)
        for start, length in node.undefined:
            filled[start : start + length] = rng.randbytes(length)
        for relocation in node.relocations:
            if not isinstance(relocation, PointerRelocation):
                raise PlanUnsupported("a tensor map", kernel=node.kernel, call="cuTensorMapEncode")
            value = self._address(relocation.to, addresses)
            at = slice(relocation.at, relocation.at + POINTER_BYTES)
            filled[at] = value.to_bytes(POINTER_BYTES, "little")
        return bytes(filled)

    def _address(self, to: Address, addresses: Mapping[str, int]) -> int:
        if isinstance(to, ArgumentAddress):
            base = addresses.get(to.name)
        else:
            base = self._loaded.addresses.get(to.name)
        if base is None:
            raise _NodeFailed(INVALID_SYMBOL)
        return base + to.offset

    def _rows(
        self, to: Address, width: int, height: int, pitch: int, addresses: Mapping[str, int]
    ) -> _Rows:
        address = self._address(to, addresses)
        buffer = self._gpu.memory.find(address)
        start = address - buffer.address if buffer else 0
        if buffer is None or start + pitch * (height - 1) + width > buffer.nbytes:
            raise _NodeFailed(INVALID_VALUE)
        shape, strides = (height, width), (pitch, 1)
        data: Bytes = as_strided(buffer.data[start:], shape, strides)
        written: Mask | None = None
        if buffer.written is not None:
            written = as_strided(buffer.written[start:], shape, strides)
        return _Rows(data, written)

    def _fill(self, target: _Rows, content: Bytes | int) -> None:
        self._gpu.parts.touch()
        target.data[:] = content
        if target.written is not None:
            target.written[:] = True


def copies_us(plan: LaunchPlan, spec: GpuSpec) -> float:
    """What memsets and copies of a plan take at least: each the price of one more launch, and its
    bytes at the memory's speed. Kernels are estimated elsewhere."""
    copies = [node for node in plan.nodes if not isinstance(node, KernelNode)]
    moved = sum(
        node.width_bytes * node.height * (2 if isinstance(node, CopyNode) else 1) for node in copies
    )
    return len(copies) * second_launch_us(spec) + 1e6 * moved / spec.dram_bytes_per_s
