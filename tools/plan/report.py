"""The recorder's report as values. Hostile data: a candidate's code shares the recorder's process.

Every line is parsed once, into frozen models; what does not fit is a ForgedReport.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from astra_chat.tools.mangled import kernel_name
from astra_chat.tools.plan.model import (
    MAX_FACTS,
    MAX_NODES,
    MAX_PARAMETER_BYTES,
    Bytes,
    Extent3,
    Name,
    Size,
    Word32,
    Word64,
)
from astra_chat.tools.template_arguments import template_arguments


class ForgedReport(ValueError):
    """The report holds what the recorder never writes."""


class Line(BaseModel):
    """A part of the report."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, ser_json_bytes="hex", val_json_bytes="hex"
    )


class TiledMap(Line):
    """cuTensorMapEncodeTiled, as called."""

    kind: Literal["tiled"]
    data_type: Word32
    address: Word64
    global_dim: Annotated[tuple[Word64, ...], Field(min_length=1, max_length=5)]
    global_strides: Annotated[tuple[Word64, ...], Field(max_length=4)]
    box_dim: Annotated[tuple[Word32, ...], Field(max_length=5)]
    element_strides: Annotated[tuple[Word32, ...], Field(max_length=5)]
    interleave: Word32
    swizzle: Word32
    l2_promotion: Word32
    oob_fill: Word32


class Im2colMap(Line):
    """cuTensorMapEncodeIm2col, as called."""

    kind: Literal["im2col"]
    data_type: Word32
    address: Word64
    global_dim: Annotated[tuple[Word64, ...], Field(min_length=3, max_length=5)]
    global_strides: Annotated[tuple[Word64, ...], Field(max_length=4)]
    lower_corner: Annotated[tuple[int, ...], Field(max_length=3)]
    upper_corner: Annotated[tuple[int, ...], Field(max_length=3)]
    channels_per_pixel: Word32
    pixels_per_column: Word32
    element_strides: Annotated[tuple[Word32, ...], Field(max_length=5)]
    interleave: Word32
    swizzle: Word32
    l2_promotion: Word32
    oob_fill: Word32


AnyMap = Annotated[TiledMap | Im2colMap, Field(discriminator="kind")]


class MapAt(Line):
    """A tensor map in a kernel's parameters."""

    at: Bytes
    map: AnyMap


class Kernel(Line):
    """A launch, its parameters with stand-in addresses."""

    kind: Literal["kernel"]
    kernel: Name
    grid: Extent3
    block: Extent3
    dynamic_shared_bytes: Bytes
    shared_carveout: int = Field(ge=-1, le=100)
    cluster_scheduling: int = Field(ge=0, le=2)
    programmatic: bool
    cooperative: bool
    cluster: Extent3 | None = None
    parameters: Annotated[bytes, Field(max_length=MAX_PARAMETER_BYTES)]
    maps: Annotated[tuple[MapAt, ...], Field(max_length=512)]


class Memset(Line):
    """A memset of a stand-in address."""

    kind: Literal["memset"]
    target: Word64
    value: int = Field(ge=0, le=255)
    width_bytes: Size
    height: int = Field(ge=1, lt=2**31)
    pitch_bytes: Bytes


class Copy(Line):
    """A copy between stand-in addresses."""

    kind: Literal["copy"]
    target: Word64
    source: Word64
    width_bytes: Size
    height: int = Field(ge=1, lt=2**31)
    target_pitch_bytes: Bytes
    source_pitch_bytes: Bytes


AnyNode = Annotated[Kernel | Memset | Copy, Field(discriminator="kind")]


class FailedLaunch(Line):
    """The first launch of a call that failed, and the limit that it exceeds."""

    number: int = Field(ge=1, le=MAX_NODES + 1)
    code: int
    """Its cudaError_t."""
    text: Annotated[str, Field(max_length=256)]
    """What `code` means."""
    kernel: Name
    grid: tuple[Word32, Word32, Word32]
    block: tuple[Word32, Word32, Word32]
    dynamic_shared_bytes: Word64
    limit: Annotated[str, Field(max_length=64)]
    """What is not from `least` to `most`; recorder/launch_limits.c names them."""
    value: Word64
    least: Word64
    most: Word64
    raised: bool
    """Whether the kernel's limit of dynamic shared memory was set."""


class Called(Line):
    """What one call of the launcher asked for, and how it ended."""

    kind: Literal["call"]
    index: int
    nodes: Annotated[tuple[AnyNode, ...], Field(max_length=MAX_NODES)]
    status: int
    """The cudaError_t that it returned."""
    left: int
    """The error that cudaGetLastError would give the next caller."""
    strayed: int = Field(ge=0)
    """Work for another stream than the caller's."""
    refused: Annotated[str, Field(max_length=512)]
    """The first thing that no plan can hold; "" for none."""
    error: Annotated[str, Field(max_length=256)]
    """What `status`, else `left`, means."""
    failed: FailedLaunch | None = None
    said: Annotated[str, Field(max_length=8192)] = ""
    """Lines of a launcher that Astra made: "error: ..." and what memory was asked for."""


class Ready(Line):
    """All that is ours worked: from here on a candidate's code has a say."""

    kind: Literal["ready"]


class Start(Line):
    """A call begins."""

    kind: Literal["start"]
    index: int


class Fact(Line):
    """Something that a launcher asked about the device."""

    kind: Literal["fact"]
    name: Annotated[str, Field(min_length=1, max_length=1024)]
    value: int = Field(ge=-(2**63), lt=2**63)


class Denied(Line):
    """A system call that a launcher may not make; the process ended."""

    kind: Literal["denied"]
    number: int


class Touched(Line):
    """Host code touched a buffer of device memory; the process ended."""

    kind: Literal["touched"]
    name: Annotated[str, Field(max_length=512)]
    offset: Word64
    writes: bool


class Unloadable(Line):
    """The dynamic linker refused the candidate's library; the process ended."""

    kind: Literal["unloadable"]
    why: Annotated[str, Field(max_length=4096)]


AnyLine = Annotated[
    Called | Ready | Start | Fact | Denied | Touched | Unloadable, Field(discriminator="kind")
]
_LINE: TypeAdapter[AnyLine] = TypeAdapter(AnyLine)


@dataclass
class Report:
    """What one recorder process wrote."""

    ready: bool = False
    started: int | None = None
    """The call that began last."""
    calls: dict[int, Called] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    end: Denied | Touched | Unloadable | None = None


def parse_report(content: bytes, expected: Iterable[int], whole: bool) -> Report:
    """Read a report about the `expected` calls. A process that died leaves a line unfinished:
    only a `whole` report must be JSON throughout. Raises ForgedReport."""
    report, open_calls = Report(), set(expected)
    for text in content.split(b"\n"):
        if not text:
            continue
        try:
            line = _LINE.validate_json(text)
        except ValidationError as error:
            if whole:
                first = error.errors(include_url=False, include_input=False)[0]
                place = ".".join(map(str, first["loc"]))
                raise ForgedReport(f"{place}: {first['msg']}"[:200]) from None
            continue
        _take(report, line, open_calls)
    return report


def _take(report: Report, line: AnyLine, open_calls: set[int]) -> None:
    match line:
        case Ready():
            report.ready = True
        case Start(index=index):
            report.started = index
        case Called(index=index):
            if index not in open_calls:
                raise ForgedReport("a call that was not requested, or one that is reported twice")
            open_calls.discard(index)
            report.calls[index] = line
        case Fact(name=name, value=value):
            if len(report.facts) < MAX_FACTS:
                report.facts[name] = value
        case _:
            report.end = line


# A failed launch as text: which kernel, with which grid, block and shared memory, and the limit
# that it exceeds.

ATTRIBUTE = "cudaFuncSetAttribute(cudaFuncAttributeMaxDynamicSharedMemorySize)"

ERROR = "error: "
"""Begins what a function threw, in what its launcher says."""


def failure_text(called: Called) -> str:
    """What a launcher's call failed with: its failed launch, else the error that it returned."""
    failed, status = called.failed, called.status or called.left
    if failed is None:
        said = [line for line in called.said.splitlines() if line.startswith(ERROR)]
        if said:
            return said[-1].removeprefix(ERROR)
        return f"the launcher returned CUDA error {status} ({called.error})"
    text = _launch(failed)
    if failed.code != status:
        text += f"; the launcher returned CUDA error {status} ({called.error})"
    return text


def _launch(failed: FailedLaunch) -> str:
    name = kernel_name(failed.kernel) + template_arguments(failed.kernel)
    grid, block = (", ".join(map(str, extent)) for extent in (failed.grid, failed.block))
    return (
        f"launch {failed.number} of the launcher fails with CUDA error {failed.code}"
        f" ({failed.text}): kernel {name}, grid ({grid}), block ({block}),"
        f" {failed.dynamic_shared_bytes:,} bytes of dynamic shared memory: {limit_text(failed)}"
    )


def limit_text(failed: FailedLaunch) -> str:
    """The limit, "grid.y is 70,000, but at most 65,535 is allowed"."""
    value, most = f"{failed.value:,}", f"at most {failed.most:,}"
    match failed.limit:
        case "clusters":
            return "this GPU does not support clusters"
        case "cluster extents":
            return (
                "the cluster's extents do not divide the grid's, or differ from the compiled ones"
            )
        case "dynamic shared memory":
            return f"{most} bytes{_raised(failed)}"
        case "shared memory":
            return f"{value} bytes with the static shared memory, but {most} is allowed"
        case "threads by launch bounds":
            return f"{value} threads in a block, but __launch_bounds__ allows {most}"
        case "threads by registers":
            return f"{value} threads in a block, but the kernel's registers allow {most}"
        case "threads of a block" if failed.value:
            return f"{value} threads in a block, but {most} are allowed"
        case "blocks of a cooperative launch":
            return f"{value} blocks in a cooperative launch, but {most} can run at once"
        case name if failed.value < failed.least:
            return f"{name} is {value}, but must be at least {failed.least:,}"
        case name:
            return f"{name} is {value}, but {most} is allowed"


def _raised(failed: FailedLaunch) -> str:
    """What has to be done to get more of it."""
    if failed.raised:
        return f", the size last passed to {ATTRIBUTE} for this kernel"
    return f" without {ATTRIBUTE}"
