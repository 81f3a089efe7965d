"""What a cubin says about its kernels and variables: what a launch must fit to.

Read from ELF sections, not from what the compiler printed. Attributes (EIATTR) of `.nv.info` are
named as cuobjdump -elf names them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType

from astra_vgpu.ground import elf
from astra_vgpu.ground.elf import Elf, ElfError, ElfSection

MACHINE_CUDA = 0xBE
RESERVED_SHARED, RESERVED_SHARED_BYTES = ".nv.shared.reserved.0", 1024
"""Where it is there, every kernel's section of shared memory begins with the driver's own KiB."""
VARIABLES = (".nv.global", ".nv.constant3")
VARIABLE_ALIGNMENT = 256
_SIZED_VALUE = 4
_REGISTERS, _BARRIERS = 0x2F, 0x4C
_PARAMETERS_SIZE, _PARAMETER, _LARGE_PARAMETER = 0x19, 0x17, 0x45
_MAX_THREADS, _REQUIRED_THREADS = 0x05, 0x10
_CLUSTER, _MAX_CLUSTER = 0x3D, 0x3F


@dataclass(frozen=True)
class CubinParameter:
    """Where one kernel parameter lies in the parameter bytes."""

    offset: int
    bytes: int


@dataclass(frozen=True)
class CubinKernel:
    """One kernel of a cubin."""

    name: str
    """Mangled name."""
    registers: int
    """Registers of a thread."""
    static_shared_bytes: int
    """Static shared memory of a block, without what the driver reserves."""
    barriers: int
    """Barriers of a block."""
    max_threads: int
    """Most threads of a block, by __launch_bounds__ or __block_size__; 0: not given."""
    required_block: tuple[int, int, int] | None
    cluster: tuple[int, int, int] | None
    """__cluster_dims__; None: not given."""
    max_cluster: int
    """Blocks, by the third of the launch bounds; 0: not given."""
    parameter_bytes: int
    parameters: tuple[CubinParameter, ...]
    """Parameters in the order of the kernel's declaration."""


@dataclass(frozen=True)
class CubinVariable:
    """A __device__ or __constant__ variable."""

    name: str
    """Mangled name."""
    bytes: int
    misalignment: int
    """Bytes past a multiple of 256."""


@dataclass(frozen=True)
class Cubin:
    """What one cubin holds."""

    compute: tuple[int, int]
    """Compute capability that it was made for."""
    kernels: Mapping[str, CubinKernel] = field(default_factory=lambda: MappingProxyType({}))
    variables: Mapping[str, CubinVariable] = field(default_factory=lambda: MappingProxyType({}))

    def runs_on(self, compute: tuple[int, int]) -> bool:
        """Machine code runs on its own major version, from its minor version on."""
        return self.compute[0] == compute[0] and self.compute[1] <= compute[1]


def read_cubin(content: bytes) -> Cubin:
    """Raises ElfError where this is no cubin, or one whose attributes are cut off."""
    binary = Elf(content)
    if int.from_bytes(content[18:20], "little") != MACHINE_CUDA:
        raise ElfError("not a cubin: an ELF file of another machine")
    sections = {section.name: section for section in binary.sections}
    try:
        kernels = dict(_kernels(binary, sections))
    except struct.error as error:
        raise ElfError(f"a damaged cubin: {error}") from None
    variables = dict(_variables(binary))
    return Cubin(_compute(binary), MappingProxyType(kernels), MappingProxyType(variables))


def _compute(binary: Elf) -> tuple[int, int]:
    """sm_90 as (9, 0). CUDA 13 moved the number by one byte, which the ABI version indicates."""
    number = (binary.flags >> 8 if binary.abi_version >= 8 else binary.flags) & 0xFF
    return number // 10, number % 10


def _kernels(binary: Elf, sections: Mapping[str, ElfSection]) -> Iterator[tuple[str, CubinKernel]]:
    registers = dict(
        struct.unpack("<II", value)
        for attribute, value in _attributes(sections.get(".nv.info"))
        if attribute == _REGISTERS
    )
    reserved = RESERVED_SHARED_BYTES if RESERVED_SHARED in sections else 0
    for index, symbol in enumerate(binary.symbols):
        if not symbol.other & elf.CUDA_ENTRY or symbol.kind != elf.FUNCTION:
            continue
        shared = sections.get(f".nv.shared.{symbol.name}")
        yield (
            symbol.name,
            _kernel(
                symbol.name,
                registers.get(index, 0),
                max(0, shared.size - reserved) if shared else 0,
                list(_attributes(sections.get(f".nv.info.{symbol.name}"))),
            ),
        )


def _kernel(
    name: str, registers: int, shared_bytes: int, attributes: list[tuple[int, bytes]]
) -> CubinKernel:
    last = dict(attributes)
    number = {a: int.from_bytes(v[:4], "little") for a, v in last.items()}
    required = _three(last.get(_REQUIRED_THREADS))
    limit = required or _three(last.get(_MAX_THREADS))
    return CubinKernel(
        name=name,
        registers=registers,
        static_shared_bytes=shared_bytes,
        barriers=number.get(_BARRIERS, 0),
        max_threads=prod(limit) if limit else 0,
        required_block=required,
        cluster=_three(last.get(_CLUSTER)),
        max_cluster=number.get(_MAX_CLUSTER, 0),
        parameter_bytes=number.get(_PARAMETERS_SIZE, 0),
        parameters=tuple(place for _, place in sorted(_parameters(attributes).items())),
    )


def _parameters(attributes: list[tuple[int, bytes]]) -> dict[int, CubinParameter]:
    """Parameters by ordinal; the form for large ones holds the size in its lower half."""
    parameters = {}
    for attribute, value in attributes:
        if attribute in (_PARAMETER, _LARGE_PARAMETER):
            _, ordinal, offset, word = struct.unpack("<IHHI", value)
            size = word >> 18 if attribute == _PARAMETER else word & 0xFFFF
            parameters[ordinal] = CubinParameter(offset, size)
    return parameters


def _three(value: bytes | None) -> tuple[int, int, int] | None:
    if value is None:
        return None
    x, y, z = struct.unpack("<III", value)
    return x, y, z


def _attributes(section: ElfSection | None) -> Iterator[tuple[int, bytes]]:
    """Attribute and value: the two bytes that stand in the record, or as many as they say."""
    content = section.content if section else b""
    at = 0
    while at < len(content):
        form, attribute, short = struct.unpack_from("<BBH", content, at)
        value = content[at + 2 : at + 4]
        at += 4
        if form == _SIZED_VALUE:
            value = content[at : at + short]
            if len(value) != short:
                raise struct.error("an attribute runs past its section")
            at += short
        yield attribute, value


def _variables(binary: Elf) -> Iterator[tuple[str, CubinVariable]]:
    for symbol in binary.symbols:
        if symbol.kind == elf.OBJECT and 0 < symbol.section < len(binary.sections):
            if binary.sections[symbol.section].name.startswith(VARIABLES):
                place = symbol.value % VARIABLE_ALIGNMENT
                yield symbol.name, CubinVariable(symbol.name, symbol.size, place)
