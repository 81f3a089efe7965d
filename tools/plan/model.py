"""A launch plan: what a launcher launches for one case, as data that any replayer can run.

Kernel parameters are bytes in the layout of the cubin. A relocation says which of them hold an
address that the replayer must fill in, and a range of `undefined` says which bytes the launcher
left as it found them. Addresses never stand in a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from astra_chat.tools.mangled import kernel_name
from astra_chat.tools.template_arguments import template_arguments
from astra_chat.tools.types import Case, Value, sha256_of

MAX_NODES = 256
"""Most nodes of one plan: launches, memsets and copies together."""
MAX_PARAMETER_BYTES = 32_764
"""Most parameter bytes of one kernel: CUDA's own limit."""
MAX_FACTS = 1024
NOTHING = "launches nothing"
POINTER_BYTES, TENSOR_MAP_BYTES = 8, 128
BEFORE_BYTES = 2**21
"""How far before an argument a pointer of a kernel may lie."""

Bytes = Annotated[int, Field(ge=0, lt=2**48)]
Size = Annotated[int, Field(ge=1, lt=2**48)]
Runs = Annotated[tuple[tuple[Bytes, Bytes], ...], Field(max_length=MAX_PARAMETER_BYTES)]
Name = Annotated[str, Field(min_length=1, max_length=4096)]
Extent3 = tuple[
    Annotated[int, Field(ge=1, lt=2**31)],
    Annotated[int, Field(ge=1, lt=2**16)],
    Annotated[int, Field(ge=1, lt=2**16)],
]
"""Extents in x, y and z."""
Word32 = Annotated[int, Field(ge=0, lt=2**32)]
Word64 = Annotated[int, Field(ge=0, lt=2**64)]


class PlanValue(Value):
    """A frozen value of a plan; bytes stand in JSON as hexadecimal digits."""

    model_config = ConfigDict(ser_json_bytes="hex", val_json_bytes="hex")


class ArgumentAddress(PlanValue):
    """A place in the buffer of one of the launcher's arguments."""

    kind: Literal["argument"] = "argument"
    name: Name
    """The argument, as the contract names it."""
    offset: Annotated[int, Field(ge=-BEFORE_BYTES, lt=2**48)]
    """Bytes from the argument's first element; at most its size (one past the end is legal).
    Negative in a pointer of a kernel only."""


class VariableAddress(PlanValue):
    """A place in a __device__ or __constant__ variable of the cubin."""

    kind: Literal["variable"] = "variable"
    name: Name
    """Mangled, as in the cubin's symbol table and for cuModuleGetGlobal."""
    offset: Bytes
    """Bytes from the variable's start; at most its size."""


Address = Annotated[ArgumentAddress | VariableAddress, Field(discriminator="kind")]


class TiledTensorMap(PlanValue):
    """Arguments of cuTensorMapEncodeTiled; enumerations by their numbers in cuda.h."""

    kind: Literal["tiled"] = "tiled"
    data_type: Word32
    address: Address
    """globalAddress."""
    global_dim: Annotated[tuple[Word64, ...], Field(min_length=1, max_length=5)]
    global_strides: Annotated[tuple[Word64, ...], Field(max_length=4)]
    """Bytes; one fewer than the rank."""
    box_dim: tuple[Word32, ...]
    element_strides: tuple[Word32, ...]
    interleave: Word32
    swizzle: Word32
    l2_promotion: Word32
    oob_fill: Word32


class Im2colTensorMap(PlanValue):
    """Arguments of cuTensorMapEncodeIm2col; enumerations by their numbers in cuda.h."""

    kind: Literal["im2col"] = "im2col"
    data_type: Word32
    address: Address
    """globalAddress."""
    global_dim: Annotated[tuple[Word64, ...], Field(min_length=3, max_length=5)]
    global_strides: Annotated[tuple[Word64, ...], Field(max_length=4)]
    """Bytes; one fewer than the rank."""
    lower_corner: tuple[int, ...]
    """pixelBoxLowerCorner; two numbers fewer than the rank."""
    upper_corner: tuple[int, ...]
    """pixelBoxUpperCorner; two numbers fewer than the rank."""
    channels_per_pixel: Word32
    pixels_per_column: Word32
    element_strides: tuple[Word32, ...]
    interleave: Word32
    swizzle: Word32
    l2_promotion: Word32
    oob_fill: Word32


TensorMap = Annotated[TiledTensorMap | Im2colTensorMap, Field(discriminator="kind")]


class PointerRelocation(PlanValue):
    """Eight parameter bytes that hold an address."""

    kind: Literal["pointer"] = "pointer"
    at: Bytes
    """Offset in the kernel's parameter bytes, a multiple of 8."""
    to: Address


class TensorMapRelocation(PlanValue):
    """128 parameter bytes that hold a tensor map."""

    kind: Literal["tensor_map"] = "tensor_map"
    at: Bytes
    """Offset in the kernel's parameter bytes, a multiple of 8: the cubin aligns a map in constant
    memory, where the parameters need not begin at a multiple of 64."""
    map: TensorMap


Relocation = Annotated[PointerRelocation | TensorMapRelocation, Field(discriminator="kind")]


class KernelNode(PlanValue):
    """One kernel launch."""

    kind: Literal["kernel"] = "kernel"
    kernel: Name
    """Mangled, as in the cubin's symbol table and for cuModuleGetFunction."""
    grid: Extent3
    """Blocks in x, y, z."""
    block: Extent3
    """Threads in x, y, z."""
    dynamic_shared_bytes: Bytes = 0
    """A replayer allows as many by CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES. That the
    launcher did so was checked when the plan was recorded; what it allowed beyond is not kept."""
    shared_carveout: int = Field(default=-1, ge=-1, le=100)
    """Preferred carve-out for shared memory in force, of the launch or of the function, in percent
    of the largest; -1: the default."""
    cluster: Extent3 | None = None
    """cudaLaunchAttributeClusterDimension; None: not given. More than 8 blocks need
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED."""
    cluster_scheduling: int = Field(default=0, ge=0, le=2)
    """Cluster scheduling policy in force, of the launch or of the function; 0: the default."""
    programmatic: bool = False
    """cudaLaunchAttributeProgrammaticStreamSerialization (PDL)."""
    cooperative: bool = False
    """cudaLaunchAttributeCooperative: all blocks run at once and may wait for each other."""
    parameters: Annotated[bytes, Field(max_length=MAX_PARAMETER_BYTES)] = b""
    """Parameters in the cubin's layout; zero where a relocation or `undefined` says more."""
    relocations: Annotated[tuple[Relocation, ...], Field(max_length=8192)] = ()
    """Relocations in ascending order of `at`, without overlap."""
    undefined: Runs = ()
    """Start and length of each run of parameter bytes that the launcher never set, or that no
    kernel reads: padding. In ascending order. A replayer draws their values."""


class MemsetNode(PlanValue):
    """cudaMemsetAsync, or cudaMemset2DAsync where `height` is more than 1."""

    kind: Literal["memset"] = "memset"
    target: Address
    value: int = Field(ge=0, le=255)
    """Value of every byte."""
    width_bytes: Size
    height: int = Field(default=1, ge=1, lt=2**31)
    """Rows."""
    pitch_bytes: Bytes = 0
    """From one row to the next; 0 where there is one row."""


class CopyNode(PlanValue):
    """A copy from device memory to device memory, of rows where `height` is more than 1."""

    kind: Literal["copy"] = "copy"
    target: Address
    source: Address
    width_bytes: Size
    height: int = Field(default=1, ge=1, lt=2**31)
    """Rows."""
    target_pitch_bytes: Bytes = 0
    """From one row of the target to the next; 0 where there is one row."""
    source_pitch_bytes: Bytes = 0
    """From one row of the source to the next; 0 where there is one row."""


Node = Annotated[KernelNode | MemsetNode | CopyNode, Field(discriminator="kind")]


class DeviceFact(PlanValue):
    """Something that the launcher asked about the GPU, and the answer that it got."""

    name: Name
    """What was asked, as CUDA names it: "cudaDevAttrMultiProcessorCount"; of an occupancy, kernel
    and block too."""
    value: int
    """0 for what is no single number (cudaGetDeviceProperties)."""


class LaunchPlan(PlanValue):
    """What the launcher launches for one case, in stream order: each node follows the one before.

    A plan comes from a process that ran a candidate's code. Only a plan that went through
    `record.record` has been checked against the cubin and the contract.
    """

    schema_version: Literal[1] = 1
    case: Case
    nodes: Annotated[tuple[Node, ...], Field(max_length=MAX_NODES)]
    facts: Annotated[tuple[DeviceFact, ...], Field(max_length=MAX_FACTS)] = ()
    """What the launcher asked in any call, for it may keep answers; in the order of their names."""

    @property
    def kernels(self) -> tuple[KernelNode, ...]:
        return tuple(node for node in self.nodes if isinstance(node, KernelNode))

    @property
    def kernel_names(self) -> frozenset[str]:
        """Mangled names of the kernels that it launches."""
        return frozenset(node.kernel for node in self.kernels)

    @property
    def sha256(self) -> str:
        """Hash of case and nodes: two plans with equal hashes launch the same."""
        return sha256_of(self.model_dump_json(exclude={"facts"}))

    @property
    def summary(self) -> str:
        """One line for people and models: each launch, memset and copy; the same ones in a row
        once, with how many."""
        return self._summary(arguments=True)

    def is_told_by(self, launches: str) -> bool:
        """Whether a recorded line is this plan's; the first judges left template arguments out."""
        return launches in (self.summary, self._summary(arguments=False))

    def _summary(self, *, arguments: bool) -> str:
        words = [_describe(node, arguments) for node in self.nodes]
        runs = [(line, len(list(same))) for line, same in groupby(words)]
        return "; ".join(f"{count} x {w}" if count > 1 else w for w, count in runs) or NOTHING


def _describe(node: KernelNode | MemsetNode | CopyNode, arguments: bool) -> str:
    if isinstance(node, MemsetNode):
        return f"memset {node.target.name}, {node.width_bytes * node.height:,} bytes"
    if isinstance(node, CopyNode):
        size = node.width_bytes * node.height
        return f"copy {node.source.name} to {node.target.name}, {size:,} bytes"
    name = kernel_name(node.kernel) + (template_arguments(node.kernel) if arguments else "")
    words = [f"{name} grid {_extent(node.grid)} block {_extent(node.block)}"]
    words += [f"shared {node.dynamic_shared_bytes:,} bytes"] * bool(node.dynamic_shared_bytes)
    words += [f"cluster {_extent(node.cluster)}"] * bool(node.cluster)
    words += ["PDL"] * node.programmatic + ["cooperative"] * node.cooperative
    return ", ".join(words)


def _extent(sizes: Sequence[int] | None) -> str:
    return "x".join(str(size) for size in sizes or ())
