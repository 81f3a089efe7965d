"""Buffers for timing: one set of arguments a launch, so that no launch finds its data in the L2."""

from __future__ import annotations

import ctypes
import math
import random

import torch

from astra_chat.tools.children.arguments import Call, poison
from astra_chat.tools.layout import buffer_bytes
from astra_chat.tools.tasks import Arg, Task
from astra_chat.tools.types import ITEM_BYTES

MIN_LAUNCHES, MAX_LAUNCHES = 20, 1024
ALIGNMENT_BYTES = 256
VERIFIED_BYTES = 256 * 2**20
"""At most this much of what timed launches wrote is handed to the judge."""


class BufferSets:
    """Copies of a call's arguments that together fill the L2 twice, as far as MAX_LAUNCHES allows.

    A random third holds the case's inputs and is verified; the others hold the same values at
    other places, so a kernel gains nothing by reading what lies beside its arguments: the result
    that it finds there is another's.

    Where the copies do not fill the L2 twice, `cool` reads a large buffer instead: reading leaves
    no dirty lines whose write-back would be timed with the kernel.
    """

    def __init__(self, task: Task, call: Call, pattern: int, chance: random.Random) -> None:
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
        self.verified = sorted(chance.sample(range(self.count), self._most_verified()))
        self._turns = [0 if i in self.verified else chance.random() for i in range(self.count)]
        self.refill()
        small = self.count * sum(strides) < 2 * l2_bytes
        self._cooler = torch.zeros(2 * l2_bytes // 4, device="cuda") if small else None
        self.launches = max(MIN_LAUNCHES, self.count)

    def addresses(self, index: int) -> list[int]:
        """Of set `index`, modulo their number, in the order of the task's arguments."""
        return [tensor[index % self.count].data_ptr() for tensor in self._tensors]

    def refill(self) -> None:
        """Inputs as they were and outputs poisoned, in every set: nothing stale can pass."""
        for arg, original, tensor in zip(
            self._task.args, self._originals, self._tensors, strict=True
        ):
            tensor[:, : len(original)] = original
            if arg.read:
                for index, turn in enumerate(self._turns):
                    if turn:
                        turned_away(arg, self._call, original, turn, tensor[index])
        torch.cuda.synchronize()

    def cool(self) -> None:
        """Evict all sets from the L2 and give back what was marked as persisting there."""
        ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache()
        if self._cooler is not None:
            self._cooler.sum()

    def write_back(self) -> int:
        """Hand the verified sets to the judge, one after the other in each file; their number."""
        for arg, tensor in zip(self._task.args, self._tensors, strict=True):
            size = buffer_bytes(arg, self._call.case)
            content = tensor[self.verified][:, :size].contiguous()
            content.cpu().numpy().tofile(self._call.after / f"{arg.name}.after")
        return len(self.verified)

    def _most_verified(self) -> int:
        """How many sets fit into VERIFIED_BYTES: at least one, at most a third of them."""
        one = sum(buffer_bytes(arg, self._call.case) for arg in self._task.args)
        return max(1, min(self.count // 3, VERIFIED_BYTES // one))


def turned_away(
    arg: Arg, call: Call, original: torch.Tensor, turn: float, into: torch.Tensor
) -> None:
    """Put an argument's rows, or the elements of a single one, at other places, turned round.

    `turn` in (0, 1) says how far; what lies between rows stays there. A lone element stays too.
    """
    rows = math.prod(arg.shape_of(call.case)[:-1])
    elements, item = arg.shape_of(call.case)[-1], ITEM_BYTES[arg.dtype_of(call.case)]
    pieces, piece = (rows, len(original) // rows) if rows > 1 else (elements, item)
    if pieces > 1:
        whole, step = pieces * piece, piece * (1 + int(turn * (pieces - 1)))
        into[: whole - step] = original[step:whole]
        into[whole - step : whole] = original[:step]
