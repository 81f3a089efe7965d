"""Launch plans on a real GPU, without torch: what Nsight Compute and Compute Sanitizer look at.

These tools slow down everything that a process does and see every kernel in it, so there is only
the candidate here: it starts in a tenth of the time, and no allocator's pool hides a write past the
end.
"""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from astra_chat.tools.children.arguments import limit_files_and_cores, poison, task_of
from astra_chat.tools.children.cuda_plans import Kernels
from astra_chat.tools.plan.stand_ins import ALIGNMENT
from astra_chat.tools.run.protocol import CallRequest
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.subprocesses import Reporter
from astra_chat.tools.task.buffer_layout import Bytes
from astra_chat.tools.task.folder import Task

STREAM_NON_BLOCKING, CAPTURE_THREAD_LOCAL = 1, 1
MOST_LEAD, LEAST_APART, MOST_APART = 12, 9, 28
"""An argument lies up to 4 MB into its allocation, in steps of ALIGNMENT, and up to 256 MB lie
between two of them, drawn at random: where it lies tells a kernel nothing about who is watching.
Powers of two."""
MOST_TRIES = 16
"""Allocations until one lies so that its end is the argument's."""


def main() -> None:
    limit_files_and_cores()
    request = Reporter().request
    task = task_of(request)
    driver = Driver(request["index"])
    lock()
    kernels = Kernels(Path(request["cubin"]))
    handed_back = request.get("handed_back", [False] * len(request["calls"]))
    for item, back in zip(request["calls"], handed_back, strict=True):
        call = CallRequest.model_validate(item)
        draws = call.seed.of("addresses").random()
        _called(driver, task, call, kernels, How(draws, stream=0, apart=False, back=back))
        driver.do("cuProfilerStart")
        _called(driver, task, call, kernels, How(draws, stream=driver.stream, back=back))
        driver.do("cuProfilerStop")
        if "handed_back" in request:
            how = How(draws, stream=driver.stream, recorded=True, back=back)
            _called(driver, task, call, kernels, how)


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


def _called(driver: Driver, task: Task, call: CallRequest, kernels: Kernels, how: How) -> None:
    """One call whose arguments end where their allocations do.

    The first call of a case warms up, on stream 0, and has nothing before its arguments; Nsight
    Compute records the second, on a stream as the timed calls' is; Compute Sanitizer sees a third,
    recorded in a graph.
    """
    contents = [poison(task, call, index, call.pattern) for index in range(len(task.args))]
    addresses = []
    for arg, content in zip(task.args, contents, strict=True):
        lead = ALIGNMENT * how.draws.randrange(2 ** how.draws.randrange(MOST_LEAD + 1))
        if how.apart:
            driver.spare(2 ** (how.draws.randrange(LEAST_APART, MOST_APART)))
        addresses.append(driver.place(content, lead * how.apart, arg.shift_of(call.case)))
    enqueue = kernels.bind(task, call, call.launches, addresses)
    driver.do("cuCtxSynchronize")
    if how.recorded:
        driver.begin()
    enqueue(how.stream)
    if how.recorded:
        driver.replay()
    driver.do("cuCtxSynchronize")
    for arg, address, content in zip(task.args, addresses, contents, strict=True):
        with (call.after / f"{arg.name}.after").open("ab") as file:
            if how.back:
                driver.fetched(address, content).tofile(file)
    driver.free()


class Driver:
    """The few calls of the CUDA driver that this needs, on the context that the runtime uses."""

    def __init__(self, index: int) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._held: list[ctypes.c_uint64] = []
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.do("cuInit", 0)
        self.do("cuDeviceGet", ctypes.byref(device), index)
        self.do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.do("cuCtxSetCurrent", context)
        stream = ctypes.c_void_p()
        self.do("cuStreamCreate", ctypes.byref(stream), STREAM_NON_BLOCKING)
        self.stream = int(stream.value or 0)

    def do(self, name: str, *arguments: Any) -> None:
        """Call it; raises RuntimeError with the driver's number of the error."""
        if status := getattr(self._library, name)(*arguments):
            raise RuntimeError(f"{name}: CUDA error {status}")

    def place(self, content: Bytes, lead: int, shift: int) -> int:
        """Address of a copy on the device, at least `lead` bytes into an allocation that ends with
        it, and `shift` bytes past a multiple of the alignment that plans are recorded for."""
        before = lead + shift
        for _ in range(MOST_TRIES):
            start = self._allocated(before + len(content)) + before
            if start % ALIGNMENT == shift % ALIGNMENT:
                break
            before += (shift - start) % ALIGNMENT
        else:
            raise RuntimeError("cuMemAlloc_v2 gives no allocation with the alignment of a plan")
        whole = np.ascontiguousarray(content)
        self.do(
            "cuMemcpyHtoD_v2", ctypes.c_uint64(start), ctypes.c_void_p(whole.ctypes.data),
            ctypes.c_size_t(len(whole)),
        )  # fmt: skip
        return start

    def _allocated(self, size: int) -> int:
        address = ctypes.c_uint64()
        self.do("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self._held.append(address)
        return int(address.value)

    def spare(self, size: int) -> None:
        """Set so many bytes apart, where there are so many."""
        address = ctypes.c_uint64()
        if not self._library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)):
            self._held.append(address)

    def fetched(self, address: int, content: Bytes) -> Bytes:
        """What lies there now, in the place of what was put there."""
        self.do(
            "cuMemcpyDtoH_v2", ctypes.c_void_p(content.ctypes.data), ctypes.c_uint64(address),
            ctypes.c_size_t(len(content)),
        )  # fmt: skip
        return content

    def begin(self) -> None:
        """Record what comes to the stream, until `replay`."""
        stream = ctypes.c_void_p(self.stream)
        self.do("cuStreamBeginCapture_v2", stream, CAPTURE_THREAD_LOCAL)

    def replay(self) -> None:
        """Do once what was recorded."""
        stream, graph, ready = ctypes.c_void_p(self.stream), ctypes.c_void_p(), ctypes.c_void_p()
        self.do("cuStreamEndCapture", stream, ctypes.byref(graph))
        self.do("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_uint64(0))
        self.do("cuGraphLaunch", ready, stream)
        self.do("cuCtxSynchronize")
        self.do("cuGraphExecDestroy", ready)
        self.do("cuGraphDestroy", graph)

    def free(self) -> None:
        """Give back what was placed."""
        while self._held:
            self.do("cuMemFree_v2", self._held.pop())


if __name__ == "__main__":
    main()
