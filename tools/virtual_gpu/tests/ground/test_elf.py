"""ELF files of the host compiler, read as binutils reads them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from astra_vgpu.ground import elf
from astra_vgpu.ground.elf import Elf, ElfError
from astra_vgpu.ground.toolkit import find_compiler

SOURCE = """
static int counter = 3;
int table[4];
extern "C" int outside(int);
extern "C" int shown() { return outside(++counter) + table[1]; }
static void early() { counter = 4; }
__attribute__((constructor)) static void first() { early(); }
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Elf:
    folder = tmp_path_factory.mktemp("elf")
    (folder / "unit.cpp").write_text(SOURCE)
    command = [str(find_compiler()), "-O1", "-fPIC", "-c", "unit.cpp", "-o", "unit.o"]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    return Elf.read(folder / "unit.o")


def test_symbols(host: Elf) -> None:
    found = {s.name: s for s in host.symbols}
    assert found["outside"].section == 0
    assert found["shown"].kind == elf.FUNCTION and found["shown"].binding == elf.GLOBAL
    assert found["table"].kind == elf.OBJECT and found["table"].size == 16
    counter = found["_ZL7counter"]
    section = host.sections[counter.section]
    assert counter.binding == elf.LOCAL and section.flags & elf.WRITE
    assert section.content[counter.value : counter.value + 4] == b"\3\0\0\0"


def test_a_relocation_leads_to_the_constructor(host: Elf) -> None:
    names = [section.name for section in host.sections]
    relocation = host.relocations(names.index(".init_array"))[0]
    first = next(s for s in host.symbols if s.name == "_ZL5firstv")
    assert host.place(relocation) == (first.section, first.value)


def test_sections_without_bytes_are_empty(host: Elf) -> None:
    bss = next(section for section in host.sections if section.name == ".bss")
    assert bss.size == 16 and bss.content == b""


@pytest.mark.parametrize(
    "content", [b"", b"text", b"\x7fELF\x02\x01", b"\x7fELF\x01\x01" + bytes(60)]
)
def test_anything_else_is_said_to_be_no_elf(content: bytes) -> None:
    with pytest.raises(ElfError):
        Elf(content)


def test_a_cut_file_is_said_to_be_damaged(tmp_path: Path, host: Elf) -> None:
    head = b"\x7fELF\x02\x01" + bytes(34) + (10**6).to_bytes(8, "little") + bytes(10)
    with pytest.raises(ElfError):
        Elf(head + b"\x40\x00\x05\x00\x01\x00" + bytes(40))
