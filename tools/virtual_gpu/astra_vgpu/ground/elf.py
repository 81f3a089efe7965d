"""Reads 64-bit little-endian ELF: sections, symbols, relocations; host objects and cubins.

Source: the System V ABI, "Object files"; CUDA's cubins follow it, with sections of their own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SYMBOL_TABLE, RELOCATIONS_ADDEND, NO_BITS = 2, 4, 8
WRITE, ALLOCATED, EXECUTABLE = 1, 2, 4
"""Flags of a section."""
LOCAL, GLOBAL = 0, 1
NO_TYPE, OBJECT, FUNCTION, SECTION, FILE, THREAD_LOCAL = 0, 1, 2, 3, 4, 6
CUDA_ENTRY = 0x10
"""In a cubin, the bit of a symbol's `other` that marks a kernel."""
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")


class ElfError(ValueError):
    """These bytes are no ELF that we read."""


@dataclass(frozen=True)
class ElfSection:
    name: str
    kind: int
    flags: int
    size: int
    content: bytes
    """Empty where the file holds none."""
    link: int
    info: int


@dataclass(frozen=True)
class ElfSymbol:
    name: str
    binding: int
    kind: int
    other: int
    section: int
    """Index of its section; 0: defined elsewhere."""
    value: int
    size: int


@dataclass(frozen=True)
class ElfRelocation:
    offset: int
    symbol: int
    addend: int


class Elf:
    """One object file. Raises ElfError."""

    def __init__(self, content: bytes) -> None:
        if content[:6] != b"\x7fELF\x02\x01":
            raise ElfError("not a 64-bit little-endian ELF file")
        try:
            header = _HEADER.unpack_from(content)
            start, entry, count, names = header[5], header[10], header[11], header[12]
            self.abi_version, self.flags = content[8], int(header[6])
            raw = [_SECTION.unpack_from(content, start + i * entry) for i in range(count)]
            texts = content[raw[names][4] : raw[names][4] + raw[names][5]] if raw else b""
            self.sections = [_section(content, row, texts) for row in raw]
        except (struct.error, IndexError) as error:
            raise ElfError(f"a damaged ELF file: {error}") from None

    @staticmethod
    def read(path: Path) -> Elf:
        return Elf(path.read_bytes())

    @cached_property
    def symbols(self) -> list[ElfSymbol]:
        symbols = []
        for section in self.sections:
            if section.kind == SYMBOL_TABLE:
                texts = self.sections[section.link].content
                for row in _SYMBOL.iter_unpack(section.content):
                    name, info, other, index, value, size = row
                    symbols.append(
                        ElfSymbol(
                            _text(texts, name), info >> 4, info & 15, other, index, value, size
                        )
                    )
        return symbols

    def relocations(self, target: int) -> list[ElfRelocation]:
        """Those that change section number `target`; the form with addends, x86-64's only one."""
        return [
            ElfRelocation(offset, info >> 32, addend)
            for section in self.sections
            if section.kind == RELOCATIONS_ADDEND and section.info == target
            for offset, info, addend in _RELOCATION.iter_unpack(section.content)
        ]

    def place(self, relocation: ElfRelocation) -> tuple[int, int]:
        """Section and offset that a relocation leads to, where it is to data or code in here."""
        symbol = self.symbols[relocation.symbol]
        return symbol.section, symbol.value + relocation.addend


def _section(content: bytes, row: tuple[int, ...], texts: bytes) -> ElfSection:
    name, kind, flags, _, offset, size, link, info = row[:8]
    held = b"" if kind == NO_BITS else content[offset : offset + size]
    return ElfSection(_text(texts, name), kind, flags, size, held, link, info)


def _text(texts: bytes, offset: int) -> str:
    end = texts.find(b"\0", offset)
    return texts[offset:end].decode(errors="replace")
