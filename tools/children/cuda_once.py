"""Calls of a launcher, without torch: what Nsight Compute and Compute Sanitizer look at.

They slow down all that a process does and see every kernel in it, so here is the candidate and
little else: it starts in a tenth of the time, and no allocator's pool hides a write past the end.
"""

from __future__ import annotations

import ctypes
import secrets
from typing import Any

import numpy as np

from astra_chat.tools.children.arguments import (
    Call,
    launch,
    limit_files_and_cores,
    poison,
    task_of,
)
from astra_chat.tools.layout import Bytes
from astra_chat.tools.process import Reporter
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.tasks import Task

STREAM_NON_BLOCKING = 1
PLACES, PLACE_BYTES = 16, 256
"""An argument lies at one of so many places in its allocation: where it lies tells a candidate
nothing about who is watching."""


def main() -> None:
    limit_files_and_cores()
    request = Reporter().request
    task = task_of(request)
    driver = Driver(request["index"])
    lock()
    library = ctypes.CDLL(request["library"])
    for call in map(Call.of, request["calls"]):
        _called(driver, task, call, library, 0, 0)
        driver.do("cuProfilerStart")
        lead = PLACE_BYTES * secrets.randbelow(PLACES)
        _called(driver, task, call, library, lead, driver.stream)
        driver.do("cuProfilerStop")


def _called(
    driver: Driver, task: Task, call: Call, library: ctypes.CDLL, lead: int, stream: int
) -> None:
    """One call whose arguments lie `lead` bytes into their allocations, and end where these do.

    The first call of a case warms up, on stream 0, and has nothing before its arguments; Nsight
    Compute records the second, on a stream as the timed calls' is.
    """
    addresses = [
        driver.place(poison(task, call, index, call.pattern), lead + arg.shift_of(call.case))
        for index, arg in enumerate(task.args)
    ]
    driver.do("cuCtxSynchronize")
    launch(library, task, call.case, addresses, stream)
    driver.do("cuCtxSynchronize")
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

    def place(self, content: Bytes, lead: int) -> int:
        """Address of a copy on the device, `lead` bytes into an allocation that ends with it."""
        address = ctypes.c_uint64()
        self.do("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(lead + len(content)))
        self._held.append(address)
        start = address.value + lead
        whole = np.ascontiguousarray(content)
        self.do(
            "cuMemcpyHtoD_v2", ctypes.c_uint64(start), ctypes.c_void_p(whole.ctypes.data),
            ctypes.c_size_t(len(whole)),
        )  # fmt: skip
        return start

    def free(self) -> None:
        """Give back what was placed."""
        while self._held:
            self.do("cuMemFree_v2", self._held.pop())


if __name__ == "__main__":
    main()
