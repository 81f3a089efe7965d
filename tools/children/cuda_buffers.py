"""Buffers for timing: one set of arguments a launch, so that no launch finds its data in the L2."""

from __future__ import annotations

import ctypes
import math

import torch

from astra_chat.tools.children.arguments import Call, poison
from astra_chat.tools.layout import buffer_bytes
from astra_chat.tools.tasks import Task

MIN_LAUNCHES, MAX_LAUNCHES = 20, 1024
ALIGNMENT_BYTES = 256
VERIFIED_BYTES = 256 * 2**20
"""At most this much of what timed launches wrote is handed to the judge."""


class BufferSets:
    """Copies of a call's arguments that together fill the L2 twice, as far as MAX_LAUNCHES allows.

    Where they do not, `cool` reads a large buffer instead: reading leaves no dirty lines whose
    write-back would be timed with the kernel.
    """

    def __init__(self, task: Task, call: Call, pattern: int) -> None:
        self._task, self._call = task, call
        l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        sizes = [buffer_bytes(arg, call.case) for arg in task.args]
        self.count = min(MAX_LAUNCHES, max(2, math.ceil(2 * l2_bytes / sum(sizes)) + 1))
        strides = [math.ceil(size / ALIGNMENT_BYTES) * ALIGNMENT_BYTES for size in sizes]
        self._tensors = [
            torch.empty((self.count, stride), dtype=torch.uint8, device="cuda")
            for stride in strides
        ]
        self._originals = [
            torch.from_numpy(poison(task, call, index, pattern)).cuda()
            for index in range(len(sizes))
        ]
        self.refill()
        small = self.count * sum(strides) < 2 * l2_bytes
        self._cooler = torch.zeros(2 * l2_bytes // 4, device="cuda") if small else None
        self.launches = max(MIN_LAUNCHES, self.count)

    def addresses(self, index: int) -> list[int]:
        """Of set `index`, modulo their number, in the order of the task's arguments."""
        return [tensor[index % self.count].data_ptr() for tensor in self._tensors]

    def refill(self) -> None:
        """Inputs as they were and outputs poisoned, in every set: nothing stale can pass."""
        for original, tensor in zip(self._originals, self._tensors, strict=True):
            tensor[:, : len(original)] = original
        torch.cuda.synchronize()

    def cool(self) -> None:
        """Evict all sets from the L2 and give back what was marked as persisting there."""
        ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache()
        if self._cooler is not None:
            self._cooler.sum()

    def write_back(self, chosen: list[int]) -> None:
        """Hand the buffers of these sets to the judge, one after the other in each file."""
        for arg, tensor in zip(self._task.args, self._tensors, strict=True):
            size = buffer_bytes(arg, self._call.case)
            content = tensor[chosen][:, :size].contiguous()
            content.cpu().numpy().tofile(self._call.after / f"{arg.name}.after")

    def most_verified(self) -> int:
        """How many sets fit into VERIFIED_BYTES: at least one, at most a third of them."""
        one = sum(buffer_bytes(arg, self._call.case) for arg in self._task.args)
        return max(1, min(self.count // 3, VERIFIED_BYTES // one))
