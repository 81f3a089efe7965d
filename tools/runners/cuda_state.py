"""Module variables of a cubin while its kernels run: compared on the device, and restored."""

from __future__ import annotations

from collections.abc import Mapping

import torch


class ModuleVariables:
    """The contents of module variables when this was made; a kernel may have no other state.

    Nothing here but `changed` waits for the device.
    """

    def __init__(self, places: Mapping[str, tuple[int, int]]) -> None:
        """`places`: address and bytes of each variable."""
        kept = {name: place for name, place in places.items() if place[1]}
        self._names = list(kept)
        self._there = [_bytes_at(*place) for place in kept.values()]
        self._first = [torch.empty_like(there).copy_(there) for there in self._there]
        self._now = [torch.empty_like(first) for first in self._first]
        self._differs = torch.zeros(len(kept), dtype=torch.bool, device="cuda")

    def note(self) -> None:
        """Remember which hold something else now, on the current stream."""
        for index, (there, first, now) in enumerate(
            zip(self._there, self._first, self._now, strict=True)
        ):
            now.copy_(there)  # a copy: the driver may keep constants where no kernel reads
            self._differs[index] |= (now != first).any()

    def restore(self) -> None:
        """Write the contents back, on the current stream, after what changed was noted."""
        self.note()
        for there, first in zip(self._there, self._first, strict=True):
            there.copy_(first)

    def changed(self) -> list[str]:
        """Names of those that have held something else so far. Waits for the device."""
        self.note()
        differs = self._differs.tolist()
        return [name for name, differ in zip(self._names, differs, strict=True) if differ]


class _Bytes:
    """Device memory that torch did not allocate, as torch takes it."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
            "data": (address, False),
        }


def _bytes_at(address: int, size: int) -> torch.Tensor:
    return torch.as_tensor(_Bytes(address, size), device="cuda")
