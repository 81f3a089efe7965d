"""Kernels of a build whose device code is that of another build, to the byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_vgpu.ground.cubin import read_cubin
from astra_vgpu.ground.elf import Elf

_NO_CODE = re.compile(
    r'"[^"\n]*"|(?P<gone>//[^\n]*|/\*.*?\*/'
    r"|^[ \t]*\.(?:loc|file|version|target|address_size)\b[^\n]*)",
    re.DOTALL | re.MULTILINE,
)
_FUNCTION = re.compile(r"\.(?:entry|func)\s*(?:\([^()]*\)\s*)?([\w$]+)")
_VARIABLE = re.compile(r"([\w$]+)\s*(?:\[[^\]]*\]\s*)*(?:=|$)")
_LABEL = re.compile(r"\$L\w+")
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_OF_THE_CALL = re.compile(
    r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}(_\d+_kernel_cu_)[0-9a-f]{8}(?:_\d+)?"
)
"""What names of internal linkage say of the nvcc call."""


def same_code(built: Build, other: Build) -> frozenset[str]:
    """Mangled names of the kernels of `built` that `other` has with equal machine code, and with
    equal PTX of the function and of all functions and variables that it reaches."""
    own, theirs = _machine_code(built), _machine_code(other)
    alike = [name for name, code in own.items() if theirs.get(name) == code]
    if not alike:
        return frozenset()
    parts, others = _parts_of(built.ptx), _parts_of(other.ptx)
    equal = {name for name in alike if _reached(name, parts) == _reached(name, others)}
    names = read_cubin(built.cubin.read_bytes()).kernels
    return frozenset(name for name in names if _general(name) in equal)


def _machine_code(built: Build) -> dict[str, tuple[bytes, object]]:
    """Machine code, and what a launch must fit to, by the kernel's name; not of kernels that only
    the nvcc call's hash tells apart."""
    content = built.cubin.read_bytes()
    sections = {section.name: section.content for section in Elf(content).sections}
    found, twice = dict[str, tuple[bytes, object]](), set[str]()
    for name, kernel in read_cubin(content).kernels.items():
        general = _general(name)
        twice |= {general} & found.keys()
        needs = (
            *(kernel.registers, kernel.static_shared_bytes, kernel.barriers, kernel.max_threads),
            *(kernel.required_block, kernel.cluster, kernel.max_cluster, kernel.parameters),
        )
        if code := sections.get(f".text.{name}"):
            found[general] = code, needs
    return {name: value for name, value in found.items() if name not in twice}


def _general(text: str) -> str:
    return _OF_THE_CALL.sub(r"\1\2", text)


@lru_cache(maxsize=4)
def _parts_of(ptx: Path) -> Mapping[str, str]:
    """Returns the parts of a build's PTX. The baseline's are asked for with every candidate."""
    return _parts(ptx.read_text(errors="replace"))


def _parts(ptx: str) -> dict[str, str]:
    """Functions and module variables by name: their PTX without comments and places in the
    source."""
    bare = _NO_CODE.sub(lambda match: "" if match["gone"] is not None else match[0], _general(ptx))
    found = dict[str, str]()
    for text in _statements(bare):
        name = _FUNCTION.search(text) or _VARIABLE.search(text.partition("{")[0].rstrip("; \n"))
        if name:
            found[name[1]] = found.get(name[1], "") + _canonical(text)
    return found


def _statements(bare: str) -> Iterator[str]:
    """A module's statements: up to a semicolon or a closing brace outside of all braces."""
    start = depth = 0
    for match in re.finditer(r"[{};]", bare):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        followed = match[0] == "}" and bare[match.end() :][:64].lstrip().startswith(";")
        if depth == 0 and not followed:
            yield bare[start : match.end()].strip()
            start = match.end()


def _canonical(text: str) -> str:
    """One text with labels by their order: nvcc numbers them by the function's place."""
    labels: dict[str, str] = {}
    shown = _LABEL.sub(lambda match: labels.setdefault(match[0], f"$L{len(labels)}"), text)
    return " ".join(shown.split())


def _reached(kernel: str, parts: Mapping[str, str]) -> dict[str, str]:
    """The kernel and what it names, and what that names."""
    found, wanted = dict[str, str](), [kernel]
    while wanted:
        name = wanted.pop()
        if name not in found and name in parts:
            found[name] = parts[name]
            wanted += _NAME.findall(parts[name])
    return found
