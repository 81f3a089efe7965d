"""Launch plans under Nsight Compute's clock; what they wrote is handed to the judge.

Before each call, and after the last, stands a kernel of ours with a random name: it separates the
durations of one call's launches from those of the next, and shows a process that ended early.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from astra_chat.tools.children.arguments import limit_files_and_cores, poison, task_of
from astra_chat.tools.children.cuda_once import Driver
from astra_chat.tools.children.cuda_plans import Kernels
from astra_chat.tools.run.protocol import CallRequest
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.subprocesses import Reporter
from astra_chat.tools.task.buffer_layout import Bytes
from astra_chat.tools.task.folder import Task

PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry {name}()
{{
  ret;
}}
"""


def main() -> None:
    limit_files_and_cores()
    request = Reporter().request
    task = task_of(request)
    driver = Driver(request["index"])
    marker = Marker(driver, request["marker"])
    lock()
    kernels = Kernels(Path(request["cubin"]))
    for item, times in zip(request["calls"], request["times"], strict=True):
        call = CallRequest.model_validate(item)
        _called(driver, task, call, kernels, marker)  # warms up, unseen
        for turn in range(times):
            driver.do("cuProfilerStart")
            left = _called(driver, task, call, kernels, marker)
            driver.do("cuProfilerStop")
            for arg, content in zip(task.args, left, strict=True):
                with (call.after / f"{arg.name}.after").open("ab" if turn else "wb") as file:
                    content.tofile(file)
    driver.do("cuProfilerStart")
    marker.launch()
    driver.do("cuProfilerStop")


def _called(
    driver: Driver, task: Task, call: CallRequest, kernels: Kernels, marker: Marker
) -> list[Bytes]:
    """What every argument's buffer holds after one call on buffers of its own."""
    contents = [poison(task, call, index, call.pattern) for index in range(len(task.args))]
    addresses = [
        driver.place(content, 0, arg.shift_of(call.case))
        for arg, content in zip(task.args, contents, strict=True)
    ]
    enqueue = kernels.bind(task, call, call.launches, addresses)
    driver.do("cuCtxSynchronize")
    marker.launch()
    enqueue(driver.stream)
    driver.do("cuCtxSynchronize")
    left = list(map(driver.fetched, addresses, contents))
    driver.free()
    return left


class Marker:
    """The kernel between calls, on their stream; made before the process is locked: the driver
    compiles it."""

    def __init__(self, driver: Driver, name: str) -> None:
        self._driver = driver
        module, self._kernel = ctypes.c_void_p(), ctypes.c_void_p()
        text = ctypes.c_char_p(PTX.format(name=name).encode())
        driver.do("cuModuleLoadData", ctypes.byref(module), text)
        driver.do("cuModuleGetFunction", ctypes.byref(self._kernel), module, name.encode())

    def launch(self) -> None:
        self.enqueue()
        self._driver.do("cuCtxSynchronize")

    def enqueue(self) -> None:
        """On the driver's stream, which may be one that is captured."""
        grid_and_block: tuple[Any, ...] = (1, 1, 1, 1, 1, 1)
        self._driver.do(
            "cuLaunchKernel", self._kernel, *grid_and_block, 0,
            ctypes.c_void_p(self._driver.stream), None, None,
        )  # fmt: skip


if __name__ == "__main__":
    main()
