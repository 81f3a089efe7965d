"""The device memory of one call on the virtual GPU: blocks in which the arguments lie as their case
says, and what a call left in each argument."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astra_chat.tools.plan.stand_ins import ALIGNMENT
from astra_chat.tools.run.protocol import CallRequest
from astra_chat.tools.runners.arguments import poison
from astra_chat.tools.task.block_images import (
    Allocation,
    allocations,
    images,
    loose,
    own_buffer,
    own_mask,
)
from astra_chat.tools.task.buffer_layout import Bytes, Mask
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.placement import layout
from astra_chat.tools.virtual_gpu.adapter import VirtualGpu


class CallMemory:
    """Memory of a call; those blocks that are `held` of the call before are not freed before new
    ones are made, and are filled again where the call asks for that."""

    def __init__(
        self, gpu: VirtualGpu, task: Task, call: CallRequest, held: Sequence[Bytes]
    ) -> None:
        self._gpu, self._pattern = gpu, call.pattern
        self._lies = lies = layout(task, call.case)
        contents = [poison(task, call, i, call.pattern) for i in range(len(task.args))]
        made = images(lies, contents, call.pattern)
        if call.how == "same_buffers":
            self.blocks = list(held)
            for array, image in zip(self.blocks, made, strict=True):
                array[:] = image
        else:
            pairs = zip(made, lies.blocks, strict=True)
            self.blocks = [_placed(image, block.shift) for image, block in pairs]
        self._first: list[Bytes] = []
        self._registered: dict[Allocation, int] = {}

    def register(self) -> dict[str, int]:
        """Make it device memory; the address of every argument, by name."""
        lies = self._lies
        for one in allocations(lies):
            part = self.blocks[one.block][one.start : one.stop]
            self._registered[one] = self._gpu.register(
                part, one.name, uninitialized=not one.read, weight=one.weight
            )
        for block, array in zip(lies.blocks, self.blocks, strict=True):
            kept = block.mixed or any(lies.args[index].constant for index in block.members)
            self._first.append(array.copy() if kept else array)
        return {
            arg.name: int(self.blocks[number].ctypes.data) + start
            for arg, (number, start) in zip(lies.args, lies.places, strict=True)
            if arg.present(lies.case)
        }

    def unregister(self) -> None:
        for address in self._registered.values():
            self._gpu.unregister(address)

    def before(self) -> list[Bytes]:
        """Each argument's buffer before the call; of one that is written and shares no memory, what
        it is now."""
        return self._own(self._first)

    def after(self) -> list[Bytes]:
        """Each argument's buffer now."""
        return self._own(self.blocks)

    def _own(self, blocks: Sequence[Bytes]) -> list[Bytes]:
        numbers = range(len(self._lies.args))
        return [own_buffer(self._lies, i, self._first, blocks, self._pattern) for i in numbers]

    def unchanged(self, before: Sequence[Bytes], after: Sequence[Bytes]) -> tuple[str, ...]:
        """Arguments that may only be read, share no memory and hold all that they held."""
        blocks = [self._lies.blocks[number] for number, _ in self._lies.places]
        return tuple(
            arg.name
            for arg, block, old, new in zip(self._lies.args, blocks, before, after, strict=True)
            if arg.constant and not block.mixed and np.array_equal(old, new)
        )

    def stored(self) -> tuple[list[Mask], str]:
        """Which bytes of each argument were stored to; and the names of arguments between which a
        kernel stored where none lies, or ""."""
        masks = [np.zeros(len(array), np.bool_) for array in self.blocks]
        for one, address in self._registered.items():
            masks[one.block][one.start : one.stop] = self._gpu.written(address)
        own = [own_mask(self._lies, i, masks) for i in range(len(self._lies.args))]
        for number, block in enumerate(self._lies.blocks):
            if block.mixed and (masks[number] & loose(self._lies, number)).any():
                return own, " and ".join(self._lies.args[index].name for index in block.members)
        return own, ""


def _placed(content: Bytes, shift: int) -> Bytes:
    """The content so many bytes past an address with the alignment that plans are recorded for."""
    room = np.empty(ALIGNMENT + shift + len(content), np.uint8)
    start = -int(room.ctypes.data) % ALIGNMENT + shift
    array: Bytes = room[start : start + len(content)]
    array[:] = content
    return array
