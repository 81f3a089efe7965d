"""Hardware counters of launch plans: CUPTI's range profiler in the process that launches them.

A pass makes all calls once. To begin one takes 14 ms, a launch in it 2 ms (H200), so that few cases
cost as much as one. Every call finds the same contents of its arguments, and nothing in the L2; of
its launches, each finds what those before it left there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from math import prod
from typing import Any

from cuda.bindings import driver as cuda

from astra_chat.tools.plan.model import KernelNode
from astra_chat.tools.run.protocol import (
    CallRequest,
    CountersReport,
    CountersRequest,
    LaunchFigures,
)
from astra_chat.tools.runners.arguments import limit_files_and_cores, poison
from astra_chat.tools.runners.cuda_once import Driver
from astra_chat.tools.runners.cuda_placed import PlacedArguments
from astra_chat.tools.runners.cuda_plans import (
    DriverError,
    Kernels,
    LoadedCubin,
    call,
    status_of,
)
from astra_chat.tools.runners.cupti import NO_PRIVILEGES, CuptiError, RangeProfiler
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.reporter import Reporter
from astra_chat.tools.task.folder import Task, load_task

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry astra_flush(.param .u64 start, .param .u32 count, .param .u32 step)
{
  .reg .b64 %place<4>;
  .reg .b32 %number<7>;
  .reg .f32 %value<5>;
  .reg .pred %test;
  ld.param.u64 %place1, [start];
  cvta.to.global.u64 %place1, %place1;
  ld.param.u32 %number5, [count];
  ld.param.u32 %number6, [step];
  mov.u32 %number1, %ctaid.x;
  mov.u32 %number2, %ntid.x;
  mov.u32 %number3, %tid.x;
  mad.lo.u32 %number4, %number1, %number2, %number3;
next:
  mul.wide.u32 %place2, %number4, 16;
  add.u64 %place3, %place1, %place2;
  ld.global.v4.f32 {%value1, %value2, %value3, %value4}, [%place3];
  setp.ne.f32 %test, %value1, 0f00000000;
  @%test st.global.f32 [%place3], %value2;
  add.u32 %number4, %number4, %number6;
  setp.lt.u32 %test, %number4, %number5;
  @%test bra next;
  ret;
}
\0"""
L2_SIZES = 4
"""How many times the L2's size is read, which puts everything else out of it."""
GROUP_BYTES = 2**31
"""Arguments of calls that are counted together; each is on the device twice."""
THREADS, BLOCKS_PER_SM = 256, 4
VECTOR_BYTES = 16
WARP = 32
SMS = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
SM_THREADS = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR
L2_BYTES = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
OF_A_KERNEL = {
    "launch__registers_per_thread": cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS,
    "launch__shared_mem_per_block_static": (
        cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
    ),
}
"""What the driver says of a kernel, by Nsight Compute's names."""


def main() -> None:
    reporter = Reporter(Driver)
    limit_files_and_cores()
    request = CountersRequest.model_validate(reporter.request)
    report = _report(request, load_task(request.task), reporter.pipe)
    reporter.send("counters", **report.model_dump(mode="json"))


def _report(request: CountersRequest, task: Task, pipe: int) -> CountersReport:
    driver = Driver(request.index)
    try:
        counting = Counting(task, driver, RangeProfiler(request.index, request.metrics))
        lock(pipe)
        kernels = Kernels(request.cubin)
        figures = [
            figures
            for group in groups(task, request.calls)
            for figures in counting.of(group, kernels)
        ]
        counting.profiler.close()
    except CuptiError as error:
        return CountersReport(lacks=str(error), refused=error.code in NO_PRIVILEGES)
    except FailedCall as failed:
        return CountersReport(
            failed=request.calls.index(failed.asked), status=status_of(failed.error)
        )
    metrics = counting.profiler.metrics
    return CountersReport(calls=tuple(figures), units=metrics.units, passes=metrics.passes)


def groups(task: Task, calls: Sequence[CallRequest]) -> list[list[CallRequest]]:
    """Calls in their order, together as far as GROUP_BYTES reach."""
    found, held = list[list[CallRequest]](), 0
    for asked in calls:
        size = sum(arg.bytes_of(asked.case) for arg in task.args)
        if not found or held + size > GROUP_BYTES:
            found.append([])
            held = 0
        found[-1].append(asked)
        held += size
    return found


class FailedCall(Exception):
    """A call that the driver reports an error of."""

    def __init__(self, asked: CallRequest, error: DriverError) -> None:
        super().__init__(str(error))
        self.asked, self.error = asked, error


class Counting:
    """Calls under the range profiler; made before the process is locked."""

    def __init__(self, task: Task, driver: Driver, profiler: RangeProfiler) -> None:
        self._task, self._driver, self.profiler = task, driver, profiler
        self._flush = Flush()

    def of(self, calls: Sequence[CallRequest], kernels: Kernels) -> list[tuple[LaunchFigures, ...]]:
        """Figures of each launch, call by call. Raises FailedCall and CuptiError."""
        placed = [PlacedCall(self._task, asked, self._driver, kernels) for asked in calls]
        for one in placed:
            one.launch()  # warms up

        def ready() -> None:
            for one in placed:
                one.restore()

        def launch() -> None:
            for one in placed:
                self._flush.launch()
                one.launch()

        launches = sum(1 + len(one.nodes) for one in placed)
        rows = iter(self.profiler.counted(launches, ready, launch))
        self._driver.free()
        # The first of each call is the flush.
        return [one.figures([*islice(rows, 1 + len(one.nodes))][1:]) for one in placed]


class PlacedCall:
    """One call, with its arguments on the device and what they hold before it."""

    def __init__(self, task: Task, asked: CallRequest, driver: Driver, kernels: Kernels) -> None:
        """Raises FailedCall."""
        self._asked, self._stream, self._kernels = asked, driver.stream, kernels
        self.nodes = asked.launches.kernels
        contents = [poison(task, asked, index, asked.pattern) for index in range(len(task.args))]
        with self._failing():
            placed = PlacedArguments(driver, task, asked.case, contents, asked.pattern)
            self.restore = placed.kept()
            self._enqueue = kernels.bind(task, asked, asked.launches, placed.addresses)
            call("cuCtxSynchronize")

    def launch(self) -> None:
        """Call and wait. Raises FailedCall."""
        with self._failing():
            self._enqueue(self._stream)
            call("cuCtxSynchronize")

    def figures(self, rows: Sequence[dict[str, float]]) -> tuple[LaunchFigures, ...]:
        """What was counted of its launches, with what the driver says of them."""
        return tuple(
            LaunchFigures(
                kernel=node.kernel,
                values=row | of_the_driver(self._kernels.function(node.kernel), node),
            )
            for node, row in zip(self.nodes, rows, strict=True)
        )

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except DriverError as error:
            raise FailedCall(self._asked, error) from None


def of_the_driver(function: Any, node: KernelNode) -> dict[str, float]:
    """What no counter says of a launch: its shape, and how many of its blocks an SM can hold."""
    threads, blocks, shared = prod(node.block), prod(node.grid), node.dynamic_shared_bytes
    held = call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared)
    held_threads = held * -(-threads // WARP) * WARP
    return {
        "launch__grid_size": blocks,
        "launch__block_size": threads,
        "launch__shared_mem_per_block_dynamic": shared,
        **{name: call("cuFuncGetAttribute", of, function) for name, of in OF_A_KERNEL.items()},
        "launch__waves_per_multiprocessor": blocks / max(1, held * _of_device(SMS)),
        "sm__maximum_warps_per_active_cycle_pct": 100 * held_threads / _of_device(SM_THREADS),
    }


def _of_device(attribute: cuda.CUdevice_attribute) -> int:
    return int(call("cuDeviceGetAttribute", attribute, call("cuCtxGetDevice")))


class Flush:
    """A kernel that reads what is larger than the L2. It leaves nothing there that would have to be
    written back while the next kernel runs."""

    def __init__(self) -> None:
        self._function = LoadedCubin(PTX).function("astra_flush")
        size = L2_SIZES * _of_device(L2_BYTES)
        self._blocks = BLOCKS_PER_SM * _of_device(SMS)
        start = call("cuMemAlloc", size)
        call("cuMemsetD8", start, 0, size)
        values = (
            ctypes.c_uint64(int(start)),
            ctypes.c_uint32(size // VECTOR_BYTES),
            ctypes.c_uint32(self._blocks * THREADS),
        )
        self._values = values
        self._pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))

    def launch(self) -> None:
        """Run it and wait."""
        grid, block = (self._blocks, 1, 1), (THREADS, 1, 1)
        pointers = ctypes.addressof(self._pointers)
        call("cuLaunchKernel", self._function, *grid, *block, 0, 0, pointers, 0)
        call("cuCtxSynchronize")


if __name__ == "__main__":
    main()
