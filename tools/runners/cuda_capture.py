"""The real launcher on a real GPU, captured into a CUDA graph and compared with its launch plans.

Plans are recorded without a GPU, and plans are what is checked and timed. Here the launcher runs as
it is shipped, with NVIDIA's runtime, and what it launches has to be what the plan says: kernels,
grid, block, shared memory, attributes, parameters, memsets and copies, in the same order. The graph
is never launched. Its host time is measured too: a replayed graph sees nothing of the host. This is
the one process in which a candidate's host code meets a GPU; no result or GPU time comes from it.
"""

from __future__ import annotations

import ctypes
import platform
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from astra_chat.tools.plan.model import Address, CopyNode, KernelNode, MemsetNode
from astra_chat.tools.run.protocol import CallRequest, CaptureRequest, CaseReport
from astra_chat.tools.runners.arguments import (
    launch,
    limit_files_and_cores,
    poison,
)
from astra_chat.tools.runners.cuda_graph import Captured, NodeKernel, chain, launch_attributes
from astra_chat.tools.runners.cuda_once import Driver
from astra_chat.tools.runners.cuda_placed import PlacedArguments
from astra_chat.tools.runners.cuda_plans import call, parameter_bytes
from astra_chat.tools.runners.cuda_profiled import Marker
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.reporter import Reporter
from astra_chat.tools.task.folder import Task, load_task

CAPTURES = 5
"""Captures of each case; all are compared, and the shortest host time counts. Every second one is
made where denormals are flushed: all launch the same."""
MARKER = "astra_before_the_launcher"
"""Captured ahead of the launcher, so that an edge says whether its first kernel waits for it."""
FLUSHED = 0x8040
"""Bits of MXCSR by which results and operands that are denormal count as zero."""
EXCEPTIONS = 0x3F
"""Bits of MXCSR for the exceptions that have been raised."""
_ENVIRONMENT_BYTES, _MXCSR_AT = 32, 28
"""Size of glibc's fenv_t and offset of MXCSR in it, in bytes."""
_KNOWN = platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"
_MATH = ctypes.CDLL("libm.so.6") if _KNOWN else None
"""Loaded before a process locks itself."""


def main() -> None:
    reporter = Reporter()
    limit_files_and_cores()
    request = CaptureRequest.model_validate(reporter.request)
    task = load_task(request.task)
    driver = Driver(request.index)
    marker = Marker(driver, MARKER)
    lock(reporter.pipe)
    library = ctypes.CDLL(str(request.library))
    for index, call_request in enumerate(request.calls):
        reporter.send("start", index=index)
        done = _compared(driver, marker, task, call_request, library)
        reporter.send("case", **done.numbered(index))


def _compared(
    driver: Driver, marker: Marker, task: Task, asked: CallRequest, library: ctypes.CDLL
) -> CaseReport:
    """The launcher's error, or where the captured graph parts from the plan ("" if nowhere)."""
    contents = [poison(task, asked, index, asked.pattern) for index in range(len(task.args))]
    addresses = PlacedArguments(driver, task, asked.case, contents, asked.pattern).addresses
    named = dict(zip((arg.name for arg in task.args), addresses, strict=True))
    host_us, parts = [], ""
    first = random.Random(asked.pattern).randrange(2)
    for number in range(first, first + CAPTURES):
        driver.begin()
        marker.enqueue()
        with floating_point_state(number):
            began = time.perf_counter()
            status = launch(library, task, asked.case, addresses, driver.stream)
            host_us.append(1e6 * (time.perf_counter() - began))
        try:
            graph = driver.end()
            parts = parts or _difference(asked, chain(graph), named)
            call("cuGraphDestroy", graph)
        except RuntimeError as error:
            parts = parts or f"it cannot be captured into a CUDA graph ({error})"
        if status or parts:
            break
    driver.free()
    return CaseReport(status=status, parts=parts, host_us=min(host_us))


def _difference(asked: CallRequest, captured: list[Captured], addresses: dict[str, int]) -> str:
    planned = asked.launches.nodes
    if len(captured) != len(planned):
        return f"it launches {len(captured)} nodes, but its plan has {len(planned)}"
    for number, (node, plan) in enumerate(zip(captured, planned, strict=True), start=1):
        match plan:
            case KernelNode():
                difference = _kernel(node, plan, addresses)
            case MemsetNode():
                difference = _memset(node, plan, addresses)
            case CopyNode():
                difference = _copy(node, plan, addresses)
        if difference:
            return f"node {number}: {difference}"
    return ""


def _kernel(captured: Captured, plan: KernelNode, addresses: dict[str, int]) -> str:
    if captured.kind != "KERNEL":
        return f"a {captured.kind.lower()} node instead of kernel {plan.kernel}"
    params = call("cuGraphKernelNodeGetParams", captured.node)
    function = NodeKernel(params)
    cluster, cooperative = launch_attributes(captured.node)
    planned = plan.cluster or (0, 0, 0)
    if cluster != planned:  # one of them may name what the kernel was compiled with
        cluster, planned = function.cluster(cluster), function.cluster(planned)
    pairs: tuple[tuple[str, object, object], ...] = (
        ("kernel", function.name, plan.kernel),
        ("grid", (params.gridDimX, params.gridDimY, params.gridDimZ), plan.grid),
        ("block", (params.blockDimX, params.blockDimY, params.blockDimZ), plan.block),
        ("dynamic shared bytes", params.sharedMemBytes, plan.dynamic_shared_bytes),
        ("cluster", cluster, planned),
        ("cooperative", cooperative, plan.cooperative),
        ("programmatic", captured.programmatic, plan.programmatic),
    )
    for what, real, wanted in pairs:
        if real != wanted:
            return f"{what} {real}, but the plan has {wanted}"

    def place(address: Address) -> int:
        known = addresses[address.name] if address.kind == "argument" else None
        return (function.variable(address.name) if known is None else known) + address.offset

    wanted_bytes = parameter_bytes(plan, place, _NO_DRAWS)
    unset = {at for start, length in plan.undefined for at in range(start, start + length)}
    for at, value in function.parameters(int(params.kernelParams)):
        if at not in unset and (at >= len(wanted_bytes) or wanted_bytes[at] != value):
            return f"byte {at} of the parameters of {plan.kernel} differs from the plan's"
    return ""


class _Zeros:
    """Undefined bytes are not compared."""

    def randbytes(self, count: int) -> bytes:
        return bytes(count)


_NO_DRAWS: Any = _Zeros()


def _memset(captured: Captured, plan: MemsetNode, addresses: dict[str, int]) -> str:
    if captured.kind != "MEMSET":
        return f"a {captured.kind.lower()} node instead of a memset"
    params = call("cuGraphMemsetNodeGetParams", captured.node)
    size = params.elementSize
    real = (
        int(params.dst),
        (params.value & (1 << 8 * size) - 1).to_bytes(size, "little"),
        params.width * size,
        params.height,
    )
    place = _argument(plan.target, addresses)
    wanted = (place, bytes([plan.value]) * size, plan.width_bytes, plan.height)
    rows = plan.height == 1 or params.pitch == plan.pitch_bytes
    return "" if real == wanted and rows else "a memset that differs from the plan's"


def _copy(captured: Captured, plan: CopyNode, addresses: dict[str, int]) -> str:
    if captured.kind != "MEMCPY":
        return f"a {captured.kind.lower()} node instead of a copy"
    params = call("cuGraphMemcpyNodeGetParams", captured.node)
    real = (
        int(params.dstDevice),
        int(params.srcDevice),
        params.WidthInBytes,
        params.Height,
        params.Depth,
    )
    wanted = (
        _argument(plan.target, addresses),
        _argument(plan.source, addresses),
        plan.width_bytes,
        plan.height,
        1,
    )
    rows = plan.height == 1 or (params.dstPitch, params.srcPitch) == (
        plan.target_pitch_bytes,
        plan.source_pitch_bytes,
    )
    return "" if real == wanted and rows else "a copy that differs from the plan's"


def _argument(address: Address, addresses: dict[str, int]) -> int:
    """Returns an argument's address. Raises RuntimeError for a module variable: its address is not
    known outside a kernel."""
    if address.kind != "argument":
        raise RuntimeError(f"a memset or copy of module variable {address.name}")
    return addresses[address.name] + address.offset


@contextmanager
def floating_point_state(number: int) -> Iterator[None]:
    """Set the state of this thread for the call with this number, and restore it: every second one
    flushes denormals and has raised all exceptions.

    A server may flush denormals, and a library that it loads may have set that for all of its
    threads. x86-64 with glibc; elsewhere nothing is changed.
    """
    if _MATH is None:
        yield
        return
    before = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    _MATH.fegetenv(before)
    mxcsr = int.from_bytes(before.raw[_MXCSR_AT:], "little") & ~(FLUSHED | EXCEPTIONS)
    mxcsr |= FLUSHED | EXCEPTIONS if number % 2 else 0
    changed = before.raw[:_MXCSR_AT] + mxcsr.to_bytes(4, "little")
    drawn = ctypes.create_string_buffer(changed, _ENVIRONMENT_BYTES)
    _MATH.fesetenv(drawn)
    try:
        yield
    finally:
        _MATH.fesetenv(before)


if __name__ == "__main__":
    main()
