"""The fat binary that nvcc puts into an object file: PTX and machine code of one source."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from astra_vgpu.ground.cubin import read_cubin
from astra_vgpu.ground.elf import ElfError
from astra_vgpu.runtime.calls import CallUnsupported

_MAGIC = 0xBA55ED50
_HEADER = struct.Struct("<IHHQ")
"""Magic, version, bytes of this header, bytes behind it."""
_ENTRY = struct.Struct("<HHIQ8xII")
"""Kind, version, bytes of this header, bytes behind it, version of its content, architecture."""
_PTX, _CUBIN = 1, 2


@dataclass(frozen=True)
class DeviceCode:
    """What a GPU would run."""

    ptx: bytes
    cubin: bytes
    resources: dict[str, tuple[int, int]]
    """Registers and static shared bytes by kernel."""


def device_code(address: int, arch: int) -> DeviceCode:
    """Returns what the fat binary at `address`, in this process' memory, has for compute capability
    `arch` (90), or for the newest before. Raises CallUnsupported where that is missing or
    compressed."""
    entries = list(_entries(address))
    fitting = [e for e in entries if e[1] <= arch]
    ptx = max((e[1:] for e in fitting if e[0] == _PTX), default=None)
    if ptx is None:
        has = ", ".join(sorted({f"{'PTX' if e[0] == _PTX else 'code'} of {e[1]}" for e in entries}))
        raise CallUnsupported(f"a program without PTX for compute capability {arch} ({has})")
    cubin = next((e[2] for e in fitting if e[:2] == (_CUBIN, ptx[0])), b"")
    text = ptx[1].rstrip(b"\0")
    try:
        kernels = read_cubin(cubin).kernels
    except ElfError:
        kernels = None
    if kernels is None or b".version" not in text:
        raise CallUnsupported("device code that astra-vgpu-nvcc did not build")
    resources = {k.name: (k.registers, k.static_shared_bytes) for k in kernels.values()}
    return DeviceCode(text, cubin, resources)


def _entries(address: int) -> Iterator[tuple[int, int, bytes]]:
    """Kind, architecture and content of each entry."""
    magic, _, header, size = _HEADER.unpack(ctypes.string_at(address, _HEADER.size))
    if magic != _MAGIC:
        raise CallUnsupported("a fat binary of a format that is not known")
    data = ctypes.string_at(address + header, size)
    at = 0
    while at + _ENTRY.size <= size:
        kind, _, start, length, _, arch = _ENTRY.unpack_from(data, at)
        yield kind, arch, data[at + start : at + start + length]
        at += start + length
