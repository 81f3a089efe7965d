"""Many drawn cases on a real GPU, each called once by candidate and baseline and compared there.

A filter, as cuda_compare.py is: what differs by more than twice the tolerance, and what changed
where nothing may change, is for the check and its oracle. All launches of the candidate come before
the first of the baseline's: until then no result that is right lies on the GPU. One report says
which cases are in doubt, or which call failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch

from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.stand_ins import ALIGNMENT
from astra_chat.tools.run.protocol import CallRequest, SweepReport, SweepRequest
from astra_chat.tools.runners.arguments import limit_files_and_cores, poison
from astra_chat.tools.runners.cuda_compare import elements, shares_of
from astra_chat.tools.runners.cuda_plans import Kernels, status_of
from astra_chat.tools.runners.cuda_state import ModuleVariables
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.reporter import Reporter
from astra_chat.tools.task.block_images import images, may_change
from astra_chat.tools.task.buffer_layout import Bytes, buffer_bytes, poisoned
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.task.placement import layout

GUARD_BYTES = ALIGNMENT
"""Poisoned bytes on both sides of every argument, at least."""


def main() -> None:
    reporter = Reporter(opened)
    limit_files_and_cores()
    request = SweepRequest.model_validate(reporter.request)
    task = load_task(request.task)
    opened(request.index)
    lock(reporter.pipe)
    reporter.send("sweep", **_swept(task, request).model_dump(mode="json"))


@cache
def opened(index: int) -> None:
    """Open a GPU: the driver starts what it needs before the lock."""
    torch.cuda.set_device(index)
    torch.zeros(1, device="cuda")


def _swept(task: Task, request: SweepRequest) -> SweepReport:
    candidate, baseline = Kernels(request.cubin), Kernels(request.baseline_cubin)
    state = ModuleVariables(candidate.variables)
    swept = [SweptCase(task, call) for call in request.calls]
    for index, one in enumerate(swept):
        if status := one.launch(candidate, request.calls[index].launches):
            return SweepReport(failed=index, status=status)
    if changed := state.changed():
        return SweepReport(failed=0, changed=changed[0])
    for index, one in enumerate(swept):
        if status := one.launch(baseline, request.calls[index].baseline_launches):
            return SweepReport(failed=index, status=status, by_baseline=True)
    other = _those_where(range(len(swept)), [one.differs() for one in swept])
    doubtful = _those_where(other, [swept[index].in_doubt() for index in other])
    return SweepReport(compared=len(swept), doubtful=tuple(doubtful))


def _those_where(numbers: Sequence[int], flags: list[torch.Tensor]) -> list[int]:
    """The host waits for the device once, not for each case."""
    if not flags:
        return []
    told = torch.stack(flags).tolist()
    return [number for number, flag in zip(numbers, told, strict=True) if flag]


class SweptCase:
    """A case: its blocks between guards in one allocation, one for each side."""

    def __init__(self, task: Task, call: CallRequest) -> None:
        self._task, self._call = task, call
        self._lies = layout(task, call.case)
        contents = [poison(task, call, index, call.pattern) for index in range(len(task.args))]
        self._blocks, image = self._laid_out(images(self._lies, contents, call.pattern))
        self._starts = [self._blocks[number] + at for number, at in self._lies.places]
        self._first = torch.from_numpy(image).cuda()
        """What both sides begin with."""
        self._sides: list[torch.Tensor] = []

    def launch(self, kernels: Kernels, plan: LaunchPlan) -> int:
        """Launch once over buffers of its own, and wait; the cudaError_t."""
        room = torch.empty(len(self._first) + ALIGNMENT, dtype=torch.uint8, device="cuda")
        begin = -room.data_ptr() % ALIGNMENT
        buffers = room[begin : begin + len(self._first)]
        buffers.copy_(self._first)
        addresses = [buffers.data_ptr() + start for start in self._starts]
        try:
            enqueue = kernels.bind(self._task, self._call, plan, addresses)
            enqueue(torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
        except RuntimeError as error:  # torch's word for a CUDA error: the kernel's, and sticky
            return status_of(error)
        self._sides.append(buffers)
        return 0

    def differs(self) -> torch.Tensor:
        """Whether the two sides left other bytes anywhere, guards included: a boolean of shape (),
        on the device. Most kernels round as the baseline does in most cases; only of the rest are
        numbers and padding looked at, in some 40 operations a case. What the baseline itself writes
        where it may not is found by `tasks check` and by the check's own cases."""
        candidate, baseline = self._sides
        return (candidate != baseline).any()

    def in_doubt(self) -> torch.Tensor:
        """Whether the check has to look at it: a boolean of shape (), on the device."""
        case, (candidate, baseline) = self._call.case, self._sides
        fixed = np.ones(len(self._first), np.bool_)
        for number, (start, block) in enumerate(zip(self._blocks, self._lies.blocks, strict=True)):
            fixed[start : start + block.bytes] = ~may_change(self._lies, number)
        unchanged = torch.from_numpy(fixed).cuda()
        doubt = torch.zeros((), dtype=torch.bool, device="cuda")
        for arg, start in zip(self._task.args, self._starts, strict=True):
            if arg.written and arg.bytes_of(case):
                place = slice(start, start + buffer_bytes(arg, case))
                got, beside = (side[place][None] for side in (candidate, baseline))
                left, right = elements(arg, case, got), elements(arg, case, beside)
                doubt |= (shares_of(self._task, arg, case, left, right) > 1).any()
        return doubt | ((candidate != self._first) & unchanged).any()

    def _laid_out(self, contents: list[Bytes]) -> tuple[list[int], Bytes]:
        """Where each block starts, and the bytes of all with poison between them."""
        starts, end = list[int](), 0
        for block, content in zip(self._lies.blocks, contents, strict=True):
            starts.append(end + GUARD_BYTES + block.shift)
            end = -(-(starts[-1] + len(content)) // ALIGNMENT) * ALIGNMENT
        image: Bytes = np.copy(poisoned(end + GUARD_BYTES, self._call.pattern))
        for start, content in zip(starts, contents, strict=True):
            image[start : start + len(content)] = content
        return starts, image


if __name__ == "__main__":
    main()
