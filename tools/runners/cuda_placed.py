"""The arguments of a call in device memory of the CUDA driver, as their case says that they lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from astra_chat.tools.task.block_images import images, own_buffer
from astra_chat.tools.task.buffer_layout import Bytes
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.placement import layout
from astra_chat.tools.types import Case


class Places(Protocol):
    """Device memory (cuda_once.Driver)."""

    def place(self, content: Bytes, lead: int, shift: int) -> int: ...
    def fetched(self, address: int, size: int) -> Bytes: ...
    def copied(self, address: int, size: int) -> int: ...
    def copy(self, target: int, source: int, size: int) -> None: ...


class PlacedArguments:
    """Blocks of one call on the device."""

    def __init__(
        self,
        driver: Places,
        task: Task,
        case: Case,
        contents: Sequence[Bytes],
        pattern: int,
        lead: Callable[[], int] = lambda: 0,
    ) -> None:
        """`contents`: every argument's buffer by itself; `lead`: bytes that lie before a block in
        its allocation, asked once for each."""
        self._driver, self._lies, self._pattern = driver, layout(task, case), pattern
        self._before = images(self._lies, contents, pattern)
        pairs = zip(self._before, self._lies.blocks, strict=True)
        self._starts = [driver.place(image, lead(), block.shift) for image, block in pairs]
        self.addresses = [self._starts[number] + at for number, at in self._lies.places]
        """In the order of the task's args."""

    def kept(self) -> Callable[[], None]:
        """Copy all blocks on the device; returns what writes the copies back."""
        driver = self._driver
        sizes = [len(image) for image in self._before]
        kept = [driver.copied(*one) for one in zip(self._starts, sizes, strict=True)]

        def restore() -> None:
            for start, source, size in zip(self._starts, kept, sizes, strict=True):
                driver.copy(start, source, size)

        return restore

    def fetched(self) -> list[Bytes]:
        """What each argument's buffer holds now, by itself."""
        after = [
            self._driver.fetched(start, len(image))
            for start, image in zip(self._starts, self._before, strict=True)
        ]
        return [
            own_buffer(self._lies, index, self._before, after, self._pattern)
            for index in range(len(self.addresses))
        ]
