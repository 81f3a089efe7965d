"""Launch plans under Nsight Compute's clock; what they wrote is handed to the judge.

Before each call, and after the last, stands a kernel of ours with a random name: it separates the
durations of one call's launches from those of the next, and shows a process that ended early.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from astra_chat.tools.run.protocol import CallRequest, ProfiledRequest
from astra_chat.tools.runners.arguments import limit_files_and_cores, poison
from astra_chat.tools.runners.cuda_once import Driver
from astra_chat.tools.runners.cuda_placed import PlacedArguments
from astra_chat.tools.runners.cuda_plans import Kernels, LoadedCubin, call
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.reporter import Reporter
from astra_chat.tools.task.buffer_layout import Bytes
from astra_chat.tools.task.folder import Task, load_task

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
    request = ProfiledRequest.model_validate(Reporter().request)
    task = load_task(request.task)
    driver = Driver(request.index)
    marker = Marker(driver, request.marker)
    lock()
    kernels = Kernels(request.cubin)
    for asked, times in zip(request.calls, request.times, strict=True):
        contents = [poison(task, asked, index, asked.pattern) for index in range(len(task.args))]
        called = partial(_called, driver, task, asked, kernels, contents, marker)
        called()  # warms up, unseen
        driver.free()
        for turn in range(times):
            call("cuProfilerStart")
            placed = called()
            call("cuProfilerStop")
            for arg, left in zip(task.args, placed.fetched(), strict=True):
                with (asked.after / f"{arg.name}.after").open("ab" if turn else "wb") as file:
                    left.tofile(file)
            driver.free()
    call("cuProfilerStart")
    marker.launch()
    call("cuProfilerStop")


def _called(
    driver: Driver,
    task: Task,
    asked: CallRequest,
    kernels: Kernels,
    contents: Sequence[Bytes],
    marker: Marker,
) -> PlacedArguments:
    """One call on buffers of its own that hold `contents`; where they lie."""
    placed = PlacedArguments(driver, task, asked.case, contents, asked.pattern)
    enqueue = kernels.bind(task, asked, asked.launches, placed.addresses)
    call("cuCtxSynchronize")
    marker.launch()
    enqueue(driver.stream)
    call("cuCtxSynchronize")
    return placed


class Marker:
    """The kernel between calls, on their stream; made before the process is locked: the driver
    compiles it."""

    def __init__(self, driver: Driver, name: str) -> None:
        self._stream = driver.stream
        self._kernel = LoadedCubin(PTX.format(name=name).encode() + b"\0").function(name)

    def launch(self) -> None:
        self.enqueue()
        call("cuCtxSynchronize")

    def enqueue(self) -> None:
        """On the driver's stream, which may be one that is captured."""
        call("cuLaunchKernel", self._kernel, 1, 1, 1, 1, 1, 1, 0, self._stream, 0, 0)


if __name__ == "__main__":
    main()
