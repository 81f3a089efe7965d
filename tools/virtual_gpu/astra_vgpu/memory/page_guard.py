"""Page protection: host code that touches device memory crashes, as with a GPU."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

_OPEN = mmap.PROT_READ | mmap.PROT_WRITE
_CLOSED = 0
_GAP_BYTES = 64 << 20  # at most: address space after each buffer, which takes no memory
_GAPS = 10_000  # at most: each divides a mapping, of which Linux gives a process 65,530


class MappingsExhausted(Exception):
    """The machine gives this process no more mappings of memory."""


class GuardedMemory:
    """The guarded buffers of one process. `runtime` is a library linked with the fake runtime."""

    def __init__(self, runtime: ctypes.CDLL) -> None:
        self._runtime = runtime
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._maps: dict[int, tuple[mmap.mmap, int]] = {}
        self._names: dict[int, tuple[str, int]] = {}
        self._freed: list[mmap.mmap] = []
        self._depth = 0
        runtime.vcudart_watch()

    def allocate(self, nbytes: int, name: str, content: int = 0) -> NDArray[np.uint8]:
        """Fresh pages of bytes of this content, closed to the host: uint8 [nbytes]. Raises
        MemoryError.

        A gap as long as the buffer follows: what leaves it does not meet its neighbour."""
        pages = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        gap = min(max(pages, 1 << 20), _GAP_BYTES) if len(self._maps) < _GAPS else 0
        try:  # private mappings side by side are one, so that a process may have many
            room = mmap.mmap(-1, pages + gap, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(str(error)) from None
        array: NDArray[np.uint8] = np.frombuffer(room, np.uint8, nbytes)
        array[:] = content
        address = int(array.ctypes.data)
        self._maps[address] = room, pages
        self._names[address] = name, nbytes
        self._watch(address, name)
        self._protect(address, pages + gap, _CLOSED)
        if self._depth:
            self._protect(address, pages, _OPEN)
        return array

    def release(self, address: int) -> None:
        """The pages stay closed and are not reused, so that a use after free is found."""
        room, pages = self._maps[address]
        self._protect(address, pages, _CLOSED)
        room.madvise(mmap.MADV_DONTNEED)
        self._freed.append(room)
        self._runtime.vcudart_unguard(ctypes.c_uint64(address))
        self._watch(address, f"{self._names[address][0]}, already freed,")
        del self._maps[address], self._names[address]

    def forget(self, address: int) -> None:
        """It is no longer used: the pages are freed with the last array over them."""
        self._runtime.vcudart_unguard(ctypes.c_uint64(address))
        del self._maps[address], self._names[address]

    def _watch(self, address: int, name: str) -> None:
        self._runtime.vcudart_guard(
            ctypes.c_uint64(address),
            ctypes.c_uint64(self._names[address][1]),
            ctypes.c_uint64(len(self._maps[address][0])),
            name.encode(),
        )

    def open(self, on: bool) -> None:
        """The GPU begins to work, or has done so; may be nested."""
        before, self._depth = self._depth, self._depth + (1 if on else -1)
        if bool(before) != bool(self._depth):
            for address, (_, pages) in self._maps.items():
                self._protect(address, pages, _OPEN if self._depth else _CLOSED)

    def __enter__(self) -> GuardedMemory:
        self.open(True)
        return self

    def __exit__(self, *_: Any) -> None:
        self.open(False)

    def _protect(self, address: int, pages: int, how: int) -> None:
        if self._libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(pages), how):
            raise MappingsExhausted(
                f"device memory in {len(self._maps)} buffers at once (mprotect:"
                f" {os.strerror(ctypes.get_errno())}; the limit is /proc/sys/vm/max_map_count)"
            )
