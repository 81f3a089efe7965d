"""Source lines: `.file`, and the sections that hold names and DWARF data."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from astra_vgpu.ptx.constants import literal, starts
from astra_vgpu.ptx.cursor import Cursor
from astra_vgpu.ptx.lexer import Token

_WIDTHS = {".b8": 8, ".b16": 16, ".b32": 32, ".b64": 64}
_MAX_FILES = 1 << 32
Place = tuple[int, int, int]
"""Number of a file, line, column."""
INLINED = ", inlined at "
WAITED = ", waited for at "
"""Between the place of a load and that of what waits for it."""
_LIBRARIES = re.compile(
    r"^/(usr|opt)/|/site-packages/|/targets/[^/]+/include/"
    r"|/include/(cccl|cooperative_groups|crt|cub|cuda|nv|thrust)/"
    r"|/include/(cooperative_groups|cuda_|curand|device_|mma|sm_)[^/]*$"
)
"""Paths of headers of the toolkit and the system."""


class SourceFiles:
    """The files of a module, by number, and how messages name lines in them."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        """`.file` stands at the end of the text; the lines of instructions need it before."""
        self._paths = {
            int(number.text): posixpath.normpath(path.text.strip('"'))
            for token, number, path in zip(tokens, tokens[1:], tokens[2:], strict=False)
            if token.text == ".file" and number.text.isdigit() and path.kind == "string"
        }
        self._names: dict[int, str] = {}
        self._own = {n for n, path in self._paths.items() if not _LIBRARIES.search(path)}

    @property
    def own(self) -> dict[str, str]:
        """Paths of the program's own files, by the names that messages give them."""
        return {self._name(number): self._paths[number] for number in sorted(self._own)}

    def describe(self, chain: Sequence[Place]) -> str:
        """chain: a line, the line of the call that it is inlined at, and so on. Those of them that
        are the program's own; where none is, the last."""
        return self.own_lines(chain) or self._at(chain[-1])

    def own_lines(self, chain: Sequence[Place]) -> str:
        """All lines of such a chain that are the program's own: "silu.cu:4, inlined at
        silu.cu:16"; nothing where there is none."""
        own = [place for place in chain if place[0] in self._own]
        return INLINED.join(dict.fromkeys(map(self._at, own)))

    def _at(self, place: Place) -> str:
        return f"{self._name(place[0])}:{place[1]}"

    def _name(self, number: int) -> str:
        if number not in self._names:
            self._names[number] = self._shortest_name(number) if number in self._paths else "?"
        return self._names[number]

    def _shortest_name(self, number: int) -> str:
        """The last part of the path, or as many as tell it from the program's other files."""
        parts = PurePosixPath(self._paths[number]).parts
        others = {self._paths[n] for n in self._own} - {self._paths[number]}
        for taken in range(1, len(parts)):
            name = "/".join(parts[-taken:])
            if not any(f"/{other}".endswith(f"/{name}") for other in others):
                return name
        return self._paths[number]


@dataclass(frozen=True)
class Section:
    """Section of debug data; only its labels matter here."""

    labels: frozenset[str]


def file_entry(cursor: Cursor, known: set[int]) -> None:
    """.file 1 "a.cu", with a time and a size if they are there. Its number is added to `known`."""
    token = cursor.peek
    number = cursor.natural()
    if number in known or number >= _MAX_FILES:
        raise cursor.error(f"file number {number} is not valid", token)
    known.add(number)
    cursor.string()
    for _ in range(2):
        if cursor.accept(","):
            cursor.natural()


def section(cursor: Cursor) -> tuple[str, Section]:
    """.section .debug_str { label: .b8 95, 90 }: its name and what it holds.

    Raises PtxSyntaxError for a value that its type does not hold, and for a label twice.
    """
    name = cursor.next()
    if name.kind not in ("directive", "name"):
        raise cursor.error(f"unexpected section {name.text!r}", name)
    labels: set[str] = set()
    cursor.expect("{")
    while not cursor.accept("}"):
        token = cursor.peek
        if token.kind == "directive":
            _data(cursor)
        else:
            label = cursor.identifier()
            if label in labels:
                raise cursor.error(f"label {label} is declared twice", token)
            labels.add(label)
            cursor.expect(":")
    return name.text, Section(frozenset(labels))


def _data(cursor: Cursor) -> None:
    """.b8 1, 2, 3 or .b32 label+4, .debug_str."""
    token = cursor.next()
    width = _WIDTHS.get(token.text)
    if width is None:
        raise cursor.error(f"unexpected {token.text!r} in a section", token)
    _value(cursor, width)
    while cursor.accept(","):
        _value(cursor, width)


def _value(cursor: Cursor, width: int) -> None:
    token = cursor.peek
    if starts(token):
        value = literal(cursor).value
        if not -(1 << width - 1) <= value < 1 << width:
            raise cursor.error(f"{value} does not fit in {width} bits", token)
        return
    if width < 32:
        raise cursor.error(f"{token.text!r} is not a value of {width} bits", token)
    _place(cursor)
    while cursor.accept("-") or cursor.accept("+"):
        _place(cursor)


def _place(cursor: Cursor) -> None:
    token = cursor.next()
    if token.kind not in ("directive", "name", "number"):
        raise cursor.error(f"unexpected {token.text!r} in a section", token)
