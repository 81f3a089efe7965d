"""Lines of a TOML file: where each value begins, by its place in the tables and lists."""

from __future__ import annotations

import re
from collections.abc import Sequence

Path = tuple[str | int, ...]
Span = tuple[int, int]
"""First character, and the one behind the last."""
_KEY = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.S
)
_PLAIN = re.compile(r"[^\s,\]}#]+(?: \d[^\s,\]}#]*)?")
_BLANK = re.compile(r"(?:\s|#[^\n]*)*")


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """Line, from 1, of the value at this place, or of the nearest table or list round it; None
    where there is none, or where the text is no TOML."""
    try:
        lines = _Reader(text).lines()
    except ValueError:
        return None
    place = tuple(path)
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place)


def spans_of(text: str) -> tuple[dict[Path, Span], list[tuple[Path, Span]]]:
    """Where each pair `key = value` stands, by its place; and all tables under a header, with what
    belongs to them up to their last value. Raises ValueError where the text is no TOML."""
    reader = _Reader(text)
    reader.lines()
    return reader.pairs, reader.tables


class _Reader:
    """Reads text that tomllib has read: what is not TOML is not looked for."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._lines: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}
        self.pairs: dict[Path, Span] = {}
        self.tables: list[tuple[Path, Span]] = []

    def lines(self) -> dict[Path, int]:
        """Returns the line of each value, from 1, by its place. Raises ValueError where the text is
        no TOML."""
        table: Path = ()
        while self._skip():
            start = self._at
            if self._text.startswith("[[", start):
                table = self._header("]]", repeated=True)
            elif self._text[start] == "[":
                table = self._header("]", repeated=False)
            else:
                self._pair(table)
                if self.tables:
                    self.tables[-1] = table, (self.tables[-1][1][0], self._at)
                continue
            self.tables.append((table, (start, self._at)))
        return self._lines

    def _skip(self) -> bool:
        """Move over blanks and comments; returns whether something follows."""
        match = _BLANK.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._at < len(self._text)

    def _token(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None or match.end() == self._at:
            raise ValueError("no TOML")
        self._at = match.end()
        return match.group()

    def _expect(self, mark: str) -> None:
        self._skip()
        if not self._text.startswith(mark, self._at):
            raise ValueError("no TOML")
        self._at += len(mark)

    def _note(self, path: Path) -> None:
        self._lines.setdefault(path, self._text.count("\n", 0, self._at) + 1)

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._skip()
            keys.append(self._token(_KEY).strip("\"'"))
            self._skip()
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _header(self, end: str, *, repeated: bool) -> Path:
        start = self._at
        self._at += len(end)
        path: Path = ()
        keys = self._keys()
        for key in keys:
            path = (*path, key)
            if path in self._counts and path != tuple(keys):
                path = (*path, self._counts[path] - 1)
        self._expect(end)
        here, self._at = self._at, start
        self._note(path)
        if repeated:
            number = self._counts.get(path, 0)
            self._counts[path] = number + 1
            path = (*path, number)
            self._note(path)
        self._at = here
        return path

    def _pair(self, table: Path) -> None:
        start = self._at
        path = table
        for key in self._keys():
            path = (*path, key)
            here, self._at = self._at, start
            self._note(path)
            self._at = here
        self._expect("=")
        self._value(path)
        self.pairs[path] = start, self._at

    def _value(self, path: Path) -> None:
        self._skip()
        first = self._text[self._at : self._at + 1]
        if first == "[":
            self._at += 1
            self._list(path)
        elif first == "{":
            self._at += 1
            self._inline(path)
        else:
            self._token(_STRING if first in ('"', "'") else _PLAIN)

    def _list(self, path: Path) -> None:
        number = 0
        while not self._ended("]"):
            self._note((*path, number))
            self._value((*path, number))
            number += 1
            self._comma()

    def _inline(self, path: Path) -> None:
        while not self._ended("}"):
            self._pair(path)
            self._comma()

    def _ended(self, mark: str) -> bool:
        self._skip()
        if self._text.startswith(mark, self._at):
            self._at += 1
            return True
        return False

    def _comma(self) -> None:
        self._skip()
        if self._text.startswith(",", self._at):
            self._at += 1
