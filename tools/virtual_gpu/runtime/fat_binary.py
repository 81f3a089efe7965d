"""The fat binary that nvcc puts into an object file: PTX and machine code of one source."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from astra_chat.tools.virtual_gpu.runtime.calls import CallUnsupported

_MAGIC = 0xBA55ED50
_HEADER = struct.Struct("<IHHQ")
"""Magic, version, bytes of this header, bytes behind it."""
_ENTRY = struct.Struct("<HHIQ8xII")
"""Kind, version, bytes of this header, bytes behind it, version of its content, architecture."""
_PTX, _CUBIN = 1, 2

_ELF = struct.Struct("<40xQ10xHHH")
"""Of its header: where the sections are described, bytes of one, how many, which one has names."""
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_REGISTERS, _SIZED = 0x2F, 4
"""In .nv.info: the attribute with a function's registers; the form of attributes with a size."""
_RESERVED_SHARED_FROM, _RESERVED_SHARED_BYTES = 90, 1024
"""From this architecture on, a cubin counts what the system takes of a block's shared memory."""


@dataclass(frozen=True)
class DeviceCode:
    """What a GPU would run."""

    ptx: bytes
    cubin: bytes
    resources: dict[str, tuple[int, int]]
    """Registers and static shared bytes by kernel."""


def device_code(address: int, arch: int) -> DeviceCode:
    """Of the fat binary in this process' memory, what is for compute capability `arch` (90), or the
    newest before. Raises CallUnsupported where that is missing or compressed."""
    entries = list(_entries(address))
    fitting = [e for e in entries if e[1] <= arch]
    ptx = max((e[1:] for e in fitting if e[0] == _PTX), default=None)
    if ptx is None:
        has = ", ".join(sorted({f"{'PTX' if e[0] == _PTX else 'code'} of {e[1]}" for e in entries}))
        raise CallUnsupported(f"a program without PTX for compute capability {arch} ({has})")
    cubin = next((e[2] for e in fitting if e[:2] == (_CUBIN, ptx[0])), b"")
    text = ptx[1].rstrip(b"\0")
    if b".version" not in text or not cubin.startswith(b"\x7fELF"):
        raise CallUnsupported("device code that astra-vgpu-nvcc did not build")
    return DeviceCode(text, cubin, _resources(cubin, ptx[0]))


def _entries(address: int) -> Iterator[tuple[int, int, bytes]]:
    """Kind, architecture and content of each."""
    magic, _, header, size = _HEADER.unpack(ctypes.string_at(address, _HEADER.size))
    if magic != _MAGIC:
        raise CallUnsupported("a fat binary of a format that is not known")
    data = ctypes.string_at(address + header, size)
    at = 0
    while at + _ENTRY.size <= size:
        kind, _, start, length, _, arch = _ENTRY.unpack_from(data, at)
        yield kind, arch, data[at + start : at + start + length]
        at += start + length


def _resources(cubin: bytes, arch: int) -> dict[str, tuple[int, int]]:
    sections = _sections(cubin)
    symbols = _symbols(cubin, sections)
    reserved = _RESERVED_SHARED_BYTES if arch >= _RESERVED_SHARED_FROM else 0
    found = {}
    for symbol, registers in _registers(_content(cubin, sections[".nv.info"])):
        name = symbols[symbol]
        if f".nv.constant0.{name}" in sections:  # a kernel, not a function
            shared = sections.get(f".nv.shared.{name}")
            found[name] = registers, max(shared[5] - reserved, 0) if shared else 0
    return found


def _sections(cubin: bytes) -> dict[str, tuple[int, ...]]:
    start, size, count, names_at = _ELF.unpack_from(cubin)
    headers = [_SECTION.unpack_from(cubin, start + i * size) for i in range(count)]
    names = _content(cubin, headers[names_at])
    return {_text(names, header[0]): header for header in headers}


def _symbols(cubin: bytes, sections: dict[str, tuple[int, ...]]) -> list[str]:
    names = _content(cubin, sections[".strtab"])
    return [_text(names, row[0]) for row in
            _SYMBOL.iter_unpack(_content(cubin, sections[".symtab"]))]  # fmt: skip


def _registers(info: bytes) -> Iterator[tuple[int, int]]:
    """Number of a function's symbol, and its registers."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        if form == _SIZED and attribute == _REGISTERS:
            yield struct.unpack_from("<II", info, at + 4)
        at += 4 + (size if form == _SIZED else 0)


def _content(cubin: bytes, header: tuple[int, ...]) -> bytes:
    return cubin[header[4] : header[4] + header[5]]


def _text(names: bytes, at: int) -> str:
    return names[at : names.index(b"\0", at)].decode()
