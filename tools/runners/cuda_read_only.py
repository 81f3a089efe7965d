"""Device memory that kernels may read and not write: a write is a GPU fault.

Comparing an argument before and after a call does not show a kernel that used it as scratch and
restored it. Source: "Virtual Memory Management" in NVIDIA's CUDA C++ guide.
"""

from __future__ import annotations

import ctypes

import torch

PINNED, ON_DEVICE, READ, READ_WRITE = 1, 1, 1, 3
"""The driver's numbers: type of an allocation, of a place, and rights."""


class _Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("number", ctypes.c_int)]


class _Allocation(ctypes.Structure):
    """CUmemAllocationProp; of the rest, 0 is the usual."""

    _fields_ = [
        ("kind", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("place", _Place),
        ("windows", ctypes.c_void_p),
        ("rest", ctypes.c_uint64),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("place", _Place), ("rights", ctypes.c_int)]


class ReadOnly:
    """Bytes on the device `index`, writable until `close`.

    Raises RuntimeError where the driver refuses. Never freed: a runner lives for seconds.
    """

    def __init__(self, content: torch.Tensor, index: int) -> None:
        """`content`: uint8, flat, on the device; it is copied."""
        self._driver, self._address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
        self._place, unit = _Place(ON_DEVICE, index), ctypes.c_size_t()
        asked = _Allocation(kind=PINNED, place=self._place)
        self._do("cuMemGetAllocationGranularity", ctypes.byref(unit), ctypes.byref(asked), 0)
        room = -(-content.numel() // unit.value) * unit.value
        self._room, zero = ctypes.c_size_t(room), ctypes.c_size_t(0)
        held, none = ctypes.c_uint64(), ctypes.c_uint64(0)
        self._do("cuMemCreate", ctypes.byref(held), self._room, ctypes.byref(asked), none)
        self._do("cuMemAddressReserve", ctypes.byref(self._address), self._room, zero, none, none)
        self._do("cuMemMap", self._address, self._room, zero, held, none)
        self._allow(READ_WRITE)
        self.__cuda_array_interface__ = {
            "shape": (content.numel(),),
            "typestr": "|u1",
            "version": 3,
            "data": (self._address.value, False),
        }
        self.tensor = torch.as_tensor(self, device=f"cuda:{index}")
        self.tensor.copy_(content)

    def close(self) -> None:
        """From now on a kernel that writes there fails."""
        torch.cuda.synchronize()
        self._allow(READ)

    def _allow(self, rights: int) -> None:
        access = _Access(self._place, rights)
        self._do(
            "cuMemSetAccess", self._address, self._room, ctypes.byref(access), ctypes.c_size_t(1)
        )

    def _do(self, name: str, *arguments: object) -> None:
        if status := getattr(self._driver, name)(*arguments):
            raise RuntimeError(f"{name}: CUDA error {status}")
