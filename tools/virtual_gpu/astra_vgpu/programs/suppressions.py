"""Suppressions: findings that a user knows of and accepts, in a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from astra_vgpu.ground.errors import BadInput, reading
from astra_vgpu.programs.findings import Finding

KEYS = ("finding", "kernel", "place", "reason")


@dataclass(frozen=True)
class Suppression:
    """Each pattern may hold * and ?; what is not given matches everything."""

    finding: str = "*"
    kernel: str = "*"
    """Pattern of the kernel's mangled name, or of its name without types."""
    place: str = "*"
    """Pattern of file:line, or file."""
    reason: str = ""

    def matches(self, finding: Finding) -> bool:
        places = (f"{finding.file}:{finding.line}", finding.file)
        kernels = (finding.kernel, finding.kernel_name)
        return (
            fnmatchcase(finding.kind, self.finding)
            and any(fnmatchcase(name, self.kernel) for name in kernels)
            and any(fnmatchcase(place, self.place) for place in places)
        )

    def __str__(self) -> str:
        return ", ".join(
            f"{key} = {value!r}" for key in KEYS[:3] if (value := getattr(self, key)) != "*"
        )


def read_suppressions(path: Path) -> tuple[Suppression, ...]:
    """Raises BadInput for a file that is no list of `[[suppress]]` tables."""
    with reading(path):
        text = path.read_text()
    try:
        entries = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path}: {error}") from None
    tables = entries.pop("suppress", [])
    if entries or not isinstance(tables, list):
        raise BadInput(f"{path}: only [[suppress]] tables are expected")
    return tuple(
        _suppression(table, f"{path}: [[suppress]] number {n}") for n, table in enumerate(tables, 1)
    )


def _suppression(table: object, where: str) -> Suppression:
    if not isinstance(table, dict) or not table.keys() & set(KEYS[:3]):
        raise BadInput(f"{where} needs one of {', '.join(KEYS[:3])}")
    for key, value in table.items():
        if key not in KEYS:
            raise BadInput(f"{where}: no key {key!r}; known are {', '.join(KEYS)}")
        if not isinstance(value, str) or not value:
            raise BadInput(f"{where}: {key} is not a string")
    return Suppression(**table)


@dataclass(frozen=True)
class Sorted:
    """Findings by whether they are suppressed."""

    reported: tuple[Finding, ...]
    suppressed: tuple[Finding, ...]
    unused: tuple[Suppression, ...]
    """They match no finding: what they were for may be mended."""

    @classmethod
    def of(cls, findings: Sequence[Finding], suppressions: Sequence[Suppression]) -> Sorted:
        hidden = [f for f in findings if any(s.matches(f) for s in suppressions)]
        unused = [s for s in suppressions if not any(s.matches(f) for f in findings)]
        reported = [f for f in findings if f not in hidden]
        return cls(tuple(reported), tuple(hidden), tuple(unused))

    def failed(self, *, warnings_as_errors: bool) -> bool:
        return any(warnings_as_errors or f.level == "error" for f in self.reported)
