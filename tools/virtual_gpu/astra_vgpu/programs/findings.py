"""Findings of a program's run, as data: what, how bad, and where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning"]

_KIND = re.compile(r"([a-z][a-z_]*): ")
_KERNEL = re.compile(r"\bkernel ([\w$.]+)")
_PLACE = re.compile(r"([\w./+-]+\.\w+):(\d+)")
_PART = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Finding:
    level: Level
    """error: a kernel was stopped. warning: it ran on."""
    kind: str
    """out_of_bounds, shared_race, uninitialized_read, leak, ..."""
    message: str
    kernel: str
    """Mangled name; "" where there is none."""
    file: str
    """Name of the file as messages give it; "" where there is none."""
    line: int
    """Number of the line; 0 where there is none."""
    path: str = ""
    """Path of the file where it was built, if that is known."""

    @property
    def kernel_name(self) -> str:
        """Name without the types of its parameters: space::kernel."""
        return plain_name(self.kernel)


def findings_of(
    faults: Iterable[str],
    warnings: Iterable[str],
    leaked: Iterable[int],
    paths: Mapping[str, str],
) -> tuple[Finding, ...]:
    """The findings of a run, faults first. paths: of source files, by message."""
    unfreed = list(leaked)
    leaks = [f"leak: {len(unfreed)} buffers were not freed, {sum(unfreed)} bytes"] * bool(unfreed)
    return (
        *(_finding("error", message, paths.get(message, "")) for message in faults),
        *(_finding("warning", each, paths.get(each, "")) for each in (*warnings, *leaks)),
    )


def _finding(level: Level, message: str, path: str) -> Finding:
    kind = match[1] if (match := _KIND.match(message)) else "_".join(message.split()[:2])
    kernel = match[1] if (match := _KERNEL.search(message)) else ""
    return Finding(level, kind, message, kernel, *place_of(message), path)


def place_of(message: str) -> tuple[str, int]:
    """File and line of a finding; "" and 0 where it has none."""
    _, _, where = message.partition("(kernel ")
    place = _PLACE.search(where) or _PLACE.search(message)
    return (place[1], int(place[2])) if place else ("", 0)


def plain_name(mangled: str) -> str:
    """space::kernel for _ZN5space6kernelEPf; the name itself where nothing is mangled."""
    rest, parts = mangled, []
    if not rest.startswith("_Z"):
        return mangled
    rest = rest[2:].lstrip("NKL")
    while length := _PART.match(rest):
        start, end = length.end(), length.end() + int(length[1])
        parts.append(rest[start:end])
        rest = rest[end:]
    return "::".join(parts) or mangled
