"""Source lines: `.file`, and the sections that hold names and DWARF data."""

from __future__ import annotations

from dataclasses import dataclass

from astra_chat.tools.virtual_gpu.ptx.constants import literal, starts
from astra_chat.tools.virtual_gpu.ptx.cursor import Cursor

_WIDTHS = {".b8": 8, ".b16": 16, ".b32": 32, ".b64": 64}
_MAX_FILES = 1 << 32


@dataclass(frozen=True)
class Section:
    """Of debug data; only its labels matter here."""

    labels: frozenset[str]


def file_entry(cursor: Cursor, known: set[int]) -> None:
    """.file 1 "a.cu", with a time and a size if they are there. Its number is added to `known`."""
    token = cursor.peek
    number = cursor.natural()
    if number in known or number >= _MAX_FILES:
        raise cursor.error(f"file number {number}", token)
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
        raise cursor.error(f"{name.text!r} as a section", name)
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
        raise cursor.error(f"{token.text!r} in a section", token)
    _value(cursor, width)
    while cursor.accept(","):
        _value(cursor, width)


def _value(cursor: Cursor, width: int) -> None:
    token = cursor.peek
    if starts(token):
        value = literal(cursor).value
        if not -(1 << width - 1) <= value < 1 << width:
            raise cursor.error(f"{value} in {width} bits", token)
        return
    if width < 32:
        raise cursor.error(f"{token.text!r} in {width} bits", token)
    _place(cursor)
    while cursor.accept("-") or cursor.accept("+"):
        _place(cursor)


def _place(cursor: Cursor) -> None:
    token = cursor.next()
    if token.kind not in ("directive", "name", "number"):
        raise cursor.error(f"{token.text!r} in a section", token)
