"""The machine code of CUDA kernels in a shared library, as nvcc and nvlink embed it.

A fat binary is a header and a chain of entries, one for each architecture, each an ELF file (a
cubin) or PTX, plain or packed with LZ4 or Zstandard. NVIDIA does not publish the layout; what is
read here was read off libraries that nvcc 12 and 13 made, and anything else raises BadInput.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from astra_vgpu.ground.elf import CUDA_ENTRY, Elf, ElfError
from astra_vgpu.ground.errors import BadInput, MissingDependency

MAGIC = struct.pack("<I", 0xBA55ED50)
_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQI")
_ARCH_AT, _FLAGS_AT, _FULL_SIZE_AT = 28, 40, 56
CUBIN, LZ4, ZSTANDARD = 2, 0x2000, 0x8000


def cubin_with(library: Path, kernels: Collection[str], arch: int = 90) -> bytes | None:
    """The first cubin for `arch` that has a kernel of one of these mangled names. Raises BadInput
    where the library cannot be read.

    Of two for the same number (sm_90 and sm_90a) the first is taken: the driver runs either.
    """
    for cubin in cubins(library, arch):
        named = {kernel for kernel in kernels if kernel.encode() in cubin}
        if named and named & set(kernels_of(cubin)):
            return cubin
    return None


def kernels_of(cubin: bytes) -> list[str]:
    """Mangled names of a cubin's kernels. Raises BadInput where it is none."""
    try:
        return [s.name for s in Elf(cubin).symbols if s.other & CUDA_ENTRY]
    except ElfError as error:
        raise BadInput(f"not a cubin: {error}") from None


def cubins(library: Path, arch: int) -> Iterator[bytes]:
    """Every cubin for `arch` that a library holds, unpacked. Raises BadInput."""
    try:
        with (
            library.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as all_,
        ):
            yield from _found(all_, arch)
    except (OSError, ValueError) as error:
        raise BadInput(f"{library} cannot be read: {error}") from None


def _found(content: mmap.mmap, arch: int) -> Iterator[bytes]:
    at = content.find(MAGIC)
    while at >= 0:
        _, version, header, size = _CONTAINER.unpack_from(content, at)
        start = at + header
        if version == 1 and header == _CONTAINER.size and start + size <= len(content):
            yield from _entries(content, start, start + size, arch)
            start += size
        at = content.find(MAGIC, start)


def _entries(content: mmap.mmap, at: int, end: int, arch: int) -> Iterator[bytes]:
    while at < end:
        kind, _, header, size, packed_size = _ENTRY.unpack_from(content, at)
        (number,) = struct.unpack_from("<I", content, at + _ARCH_AT)
        (flags,) = struct.unpack_from("<Q", content, at + _FLAGS_AT)
        start = at + header
        if kind == CUBIN and number == arch:
            if flags & LZ4:
                (full_size,) = struct.unpack_from("<Q", content, at + _FULL_SIZE_AT)
                yield unpacked(content[start : start + packed_size], full_size)
            elif flags & ZSTANDARD:
                yield _zstandard().decompress(content[start : start + packed_size])
            elif content[start : start + 4] == b"\x7fELF":
                yield content[start : start + size]
        at = start + size


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingDependency(
            "this library's kernels are packed with Zstandard: pip install zstandard"
        ) from None
    return zstandard.ZstdDecompressor()


def unpacked(packed: bytes, size: int) -> bytes:
    """An LZ4 block (github.com/lz4/lz4, lz4_Block_format.md) of `size` bytes. Raises ValueError."""
    try:
        out = _decoded(packed, size)
    except (IndexError, struct.error):
        raise ValueError("an LZ4 block that ends too early") from None
    if len(out) != size:
        raise ValueError(f"an LZ4 block of {len(out)} bytes instead of the declared {size}")
    return bytes(out)


def _decoded(packed: bytes, size: int) -> bytearray:
    out, at = bytearray(), 0
    while at < len(packed) and len(out) < size:
        token = packed[at]
        literals, at = _length(packed, at + 1, token >> 4)
        out += packed[at : at + literals]
        at += literals
        if len(out) >= size:
            break
        (distance,) = struct.unpack_from("<H", packed, at)
        count, at = _length(packed, at + 2, token & 15)
        start = len(out) - distance
        if not 0 < distance <= len(out):
            raise ValueError("a damaged LZ4 block")
        for index in range(count + 4):
            out.append(out[start + index])
    return out


def _length(packed: bytes, at: int, length: int) -> tuple[int, int]:
    """A length that continues in further bytes where its four bits are all set."""
    if length == 15:
        while True:
            more = packed[at]
            at += 1
            length += more
            if more != 255:
                break
    return length, at
