"""Launch plans on a real GPU, without torch: what Nsight Compute and Compute Sanitizer look at.

These tools slow down everything that a process does and see every kernel in it, so there is only
the candidate here: it starts in a tenth of the time, and no allocator's pool hides a write past the
end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from cuda.bindings import driver as cuda

from astra_chat.tools.plan.stand_ins import ALIGNMENT
from astra_chat.tools.run.protocol import CallRequest, SanitizedRequest
from astra_chat.tools.runners.arguments import limit_files_and_cores, poison
from astra_chat.tools.runners.cuda_placed import PlacedArguments
from astra_chat.tools.runners.cuda_plans import DriverError, Kernels, call, use_device
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.reporter import Reporter
from astra_chat.tools.task.buffer_layout import Bytes
from astra_chat.tools.task.folder import Task, load_task

MAX_LEAD, MIN_APART, MAX_APART = 12, 9, 28
"""An argument lies up to 4 MB into its allocation, in steps of ALIGNMENT, and up to 256 MB lie
between two of them, drawn at random: an address does not show which tool runs the kernel.
Powers of two."""
MAX_TRIES = 64
"""Allocations until one lies so that its end is the argument's."""
STEP, MOST_STEPS = 128, 16
"""What lies between two tries, in bytes: up to so many steps. An allocator may round by 128, 256 or
512; by a fixed rule for what lies between, tries would miss for ever by one of them."""


def main() -> None:
    limit_files_and_cores()
    request = SanitizedRequest.model_validate(Reporter().request)
    task = load_task(request.task)
    driver = Driver(request.index)
    lock()
    kernels = Kernels(request.cubin)
    handed_back = request.handed_back or (False,) * len(request.calls)
    for asked, back in zip(request.calls, handed_back, strict=True):
        draws = asked.seed.of("addresses").random()
        contents = [poison(task, asked, index, asked.pattern) for index in range(len(task.args))]
        called = partial(_called, driver, task, asked, kernels, contents)
        called(How(draws, stream=0, apart=False, back=back))
        call("cuProfilerStart")
        called(How(draws, stream=driver.stream, back=back))
        call("cuProfilerStop")
        if request.handed_back is not None:
            called(How(draws, stream=driver.stream, recorded=True, back=back))


@dataclass(frozen=True)
class How:
    """One call of a case."""

    draws: random.Random
    stream: int
    apart: bool = True
    """Whether something lies before its arguments and between them."""
    recorded: bool = False
    """In a graph, which is then launched once."""
    back: bool = False
    """Whether what it leaves is handed to the judge; if not, empty files say that it was made."""


def _called(
    driver: Driver,
    task: Task,
    asked: CallRequest,
    kernels: Kernels,
    contents: Sequence[Bytes],
    how: How,
) -> None:
    """One call whose arguments hold `contents` and end where their allocations do.

    The first call of a case warms up, on stream 0, and has nothing before its arguments; Nsight
    Compute records the second, on a stream as the timed calls' is; Compute Sanitizer sees a third,
    recorded in a graph.
    """

    def lead() -> int:
        before = ALIGNMENT * how.draws.randrange(2 ** how.draws.randrange(MAX_LEAD + 1))
        if how.apart:
            driver.spare(2 ** (how.draws.randrange(MIN_APART, MAX_APART)))
        return before * how.apart

    placed = PlacedArguments(driver, task, asked.case, contents, asked.pattern, lead)
    enqueue = kernels.bind(task, asked, asked.launches, placed.addresses)
    call("cuCtxSynchronize")
    if how.recorded:
        driver.begin()
    enqueue(how.stream)
    if how.recorded:
        driver.replay()
    call("cuCtxSynchronize")
    left = placed.fetched() if how.back else []
    for index, arg in enumerate(task.args):
        with (asked.after / f"{arg.name}.after").open("ab") as file:
            if how.back:
                left[index].tofile(file)
    driver.free()


class Driver:
    """Memory, a stream and a graph on the context that the runtime uses, by the CUDA driver."""

    def __init__(self, index: int) -> None:
        use_device(index)
        self._held: list[Any] = []
        self._stream = call("cuStreamCreate", cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)
        self.stream = int(self._stream)

    def place(self, content: Bytes, lead: int, shift: int) -> int:
        """Address of a copy on the device, at least `lead` bytes into an allocation that ends with
        it, and `shift` bytes past a multiple of the alignment that plans are recorded for. Where
        cuMemAlloc gives none such, the allocation ends up to ALIGNMENT bytes later."""
        start = placed_at_end(self._allocated, lead, len(content), shift, ALIGNMENT)
        whole = np.ascontiguousarray(content)
        if len(whole):
            call("cuMemcpyHtoD", start, whole.ctypes.data, len(whole))
        return start

    def _allocated(self, size: int) -> int:
        self._held.append(call("cuMemAlloc", size))
        return int(self._held[-1])

    def spare(self, size: int) -> None:
        """Set so many bytes apart, where there are so many."""
        with suppress(DriverError):
            self._allocated(size)

    def fetched(self, address: int, size: int) -> Bytes:
        """What lies there now."""
        content: Bytes = np.empty(size, np.uint8)
        if size:
            call("cuMemcpyDtoH", content.ctypes.data, address, size)
        return content

    def copied(self, address: int, size: int) -> int:
        """Address of a copy of what lies there."""
        start = self._allocated(max(1, size))
        self.copy(start, address, size)
        return start

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy on the device."""
        if size:
            call("cuMemcpyDtoD", target, source, size)

    def begin(self) -> None:
        """Record what comes to the stream, until `end` or `replay`."""
        mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        call("cuStreamBeginCapture", self._stream, mode)

    def end(self) -> Any:
        """The graph of what was recorded."""
        return call("cuStreamEndCapture", self._stream)

    def replay(self) -> None:
        """Do once what was recorded."""
        graph = self.end()
        ready = call("cuGraphInstantiate", graph, 0)
        call("cuGraphLaunch", ready, self._stream)
        call("cuCtxSynchronize")
        call("cuGraphExecDestroy", ready)
        call("cuGraphDestroy", graph)

    def free(self) -> None:
        """Give back what was placed."""
        while self._held:
            call("cuMemFree", self._held.pop())


def placed_at_end(
    allocate: Callable[[int], int], lead: int, size: int, shift: int, alignment: int
) -> int:
    """Allocates until some bytes lie as they have to: a tool then sees what lies beyond them. What
    was allocated before stays.

    Args:
        allocate: gives the address of so many bytes of new memory.
        lead: bytes that lie before at least, a multiple of the alignment.
        size: their number.
        shift: bytes from a multiple of the alignment to the first of them.

    Returns:
        The address of the first. They end where their allocation does, or, where no try is met, up
        to `alignment` bytes before.
    """
    before, draws = lead + shift, random.Random(size)
    for _ in range(MAX_TRIES):
        start = allocate(max(1, before + size)) + before
        if start % alignment == shift % alignment:
            return start
        before += (shift - start) % alignment
        allocate(1 + STEP * draws.randrange(MOST_STEPS))
    start = allocate(before + size + alignment) + before
    return start + (shift - start) % alignment


if __name__ == "__main__":
    main()
