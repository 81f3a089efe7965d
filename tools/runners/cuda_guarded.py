"""The blocks of a call on a GPU between poisoned guards: what they hold before it, the arguments'
addresses in them, and what each argument holds after it as if it lay alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from astra_chat.tools.run.protocol import CallRequest
from astra_chat.tools.runners.arguments import poison
from astra_chat.tools.task.block_images import images, loose, own_buffer
from astra_chat.tools.task.buffer_layout import Bytes, poisoned
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.placement import Layout, layout


def addresses_of(lies: Layout, held: Sequence[torch.Tensor], guard_bytes: int) -> list[int]:
    """Returns the address of every argument, in the order of the contract.

    Args:
        held: each block between its guards, the left one longer by the block's shift.
        guard_bytes: length of the right guard.
    """
    return [
        held[number].data_ptr() + guard_bytes + lies.blocks[number].shift + at
        for number, at in lies.places
    ]


class GuardedCall:
    """The blocks of one call; each lies between guards, the left one longer by its shift."""

    def __init__(self, task: Task, call: CallRequest, guard_bytes: int) -> None:
        self.call, self.guard_bytes = call, guard_bytes
        self.lies = layout(task, call.case)
        alone = [poison(task, call, index, call.pattern) for index in range(len(task.args))]
        self._made = images(self.lies, alone, call.pattern)

    def contents(self) -> list[torch.Tensor]:
        """Returns what each block holds before the call, guards included, on the device."""
        return [
            self._guarded(image, block.shift)
            for image, block in zip(self._made, self.lies.blocks, strict=True)
        ]

    def _guarded(self, image: Bytes, shift: int) -> torch.Tensor:
        pattern = self.call.pattern
        left, right = (
            poisoned(self.guard_bytes + shift, pattern),
            poisoned(self.guard_bytes, pattern),
        )
        return torch.from_numpy(np.concatenate([left, image, right])).cuda()

    def left_in(self, blocks: Sequence[torch.Tensor]) -> list[Bytes]:
        """Returns each argument's buffer after the call between two guards of `guard_bytes`.

        What lies round a block of several arguments, and between them, shows as a change of the
        guards of each.
        """
        left = [tensor.cpu().numpy() for tensor in blocks]
        return [self._as_if_alone(index, left) for index in range(len(self.lies.args))]

    def _as_if_alone(self, index: int, left: Sequence[Bytes]) -> Bytes:
        lies, pattern, guard = self.lies, self.call.pattern, self.guard_bytes
        number = lies.places[index][0]
        block = lies.blocks[number]
        if len(block.members) == 1:
            return left[number][block.shift :]
        inside = [
            whole[guard + one.shift : guard + one.shift + len(image)]
            for whole, image, one in zip(left, self._made, lies.blocks, strict=True)
        ]
        first, last = poisoned(guard + block.shift, pattern), np.copy(poisoned(guard, pattern))
        begin, end = len(first), len(first) + block.bytes
        unchanged = [
            np.array_equal(left[number][:begin], first),
            np.array_equal(left[number][end:], last),
            not (inside[number] != self._made[number])[loose(lies, number)].any(),
        ]
        if not all(unchanged):
            last[:1] ^= 0xFF
        own = own_buffer(lies, index, self._made, inside, pattern)
        return np.concatenate([poisoned(guard, pattern), own, last])
