"""A kernel's files as one source and its headers; all lie flat in the task folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from astra_chat.tools.new import framework
from astra_chat.tools.new.source import BadSource, Piece, pieces
from astra_chat.tools.task.folder import HEADER_NAME
from astra_vgpu.ground.errors import BadInput, reading

TAKEN = ("kernel.cu", "baseline.cu", "paper.cu")
"""Files that a build or a task's folder has already."""
_ONCE = re.compile(r"^\s*#\s*pragma\s+once\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Chunk:
    """Text of one file, as it stands in the source."""

    text: str
    file: str
    line: int
    """Line of the text's first character in the file."""


@dataclass(frozen=True)
class Gathered:
    """A kernel's files as one source, and the headers that lie beside it."""

    chunks: tuple[Chunk, ...]
    headers: dict[str, str]

    @property
    def source(self) -> str:
        return "".join(chunk.text for chunk in self.chunks)

    def place(self, line: int) -> str:
        """Where a line of the source stands: "kernel.cu, line 7"."""
        left = line - 1
        for chunk in self.chunks:
            inside = chunk.text.count("\n")
            if left < inside or (left == inside and not chunk.text.endswith("\n")):
                return f"{chunk.file}, line {chunk.line + left}"
            left -= inside
        return f"{self.chunks[-1].file}, its end"


def gathered(kernels: Sequence[Path], folders: Sequence[Path] = ()) -> Gathered:
    """The kernel files as one source, and by name the text of every file that they include in
    quotes, and of those that these do. Includes name the files as they lie in the task's folder.

    Files are looked for as a compiler does first: beside the one that includes them; then anywhere
    in `folders`, where a name in angle brackets may lie too. One that needs a framework stands in
    the source itself, where the framework is cut. Raises BadInput where a file is not there or
    cannot be named.
    """
    headers = _Headers(folders)
    chunks: list[Chunk] = []
    for place, kernel in enumerate(kernels):
        chunks += [Chunk("\n", kernel.name, 1)] * bool(place)
        chunks += headers.renamed(read(kernel), kernel)
    texts: dict[str, str] = {}
    while waiting := [path for path, name in headers.names.items() if name not in texts]:
        for path in waiting:
            parts = headers.renamed(read(path), path)
            texts[headers.names[path]] = "".join(part.text for part in parts)
    return Gathered(tuple(chunks), dict(sorted(texts.items())))


def read(path: Path) -> str:
    """A source's text. Raises BadInput."""
    with reading(path):
        return path.read_text()


class _Headers:
    """What was included so far."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self.names: dict[Path, str] = {}
        self._foreign: dict[Path, bool] = {}
        self._stands: set[Path] = set()
        """Files whose text stands in the source."""

    def renamed(self, text: str, file: Path) -> list[Chunk]:
        """The text of a file with its includes by the new names."""
        parts, at = [], 0

        def own(start: int, end: int) -> Chunk:
            return Chunk(text[start:end], file.name, 1 + text.count("\n", 0, start))

        for include in _own_includes(text, file, self._folders):
            path = include.path
            if self._needs_framework(path):
                parts += [own(at, include.start), *self._text(path)]
            else:
                if path not in self.names:
                    self.names[path] = _name(path, {*TAKEN, *self.names.values()})
                name = Chunk(f'"{self.names[path]}"', file.name, 1 + text.count("\n", 0, at))
                parts += [own(at, include.name), name]
            at = include.end
        return [*parts, own(at, len(text))]

    def _text(self, path: Path) -> list[Chunk]:
        if path in self._stands:
            return []
        self._stands.add(path)
        return self.renamed(_ONCE.sub("", read(path)), path)

    def _needs_framework(self, path: Path) -> bool:
        if path not in self._foreign:
            self._foreign[path] = False  # of one that includes itself in the end
            text = read(path)
            self._foreign[path] = any(
                framework.is_framework_header(piece.text)
                for piece in _pieces(text, path)
                if piece.token.kind == "header"
            ) or any(
                self._needs_framework(one.path) for one in _own_includes(text, path, self._folders)
            )
        return self._foreign[path]


@dataclass(frozen=True)
class _Include:
    """An include in quotes: where the directive starts, and its name; and what it names."""

    start: int
    name: int
    end: int
    path: Path


def _own_includes(text: str, file: Path, folders: Sequence[Path]) -> Iterator[_Include]:
    """Includes in quotes that are no framework's, and those in brackets that lie in the folders."""
    for directive, header in pairwise(_pieces(text, file)):
        if header.token.kind != "header" or framework.is_framework_header(header.text):
            continue
        name = header.text.strip('"<>')
        path = (file.parent / name).resolve()
        if header.text.startswith("<") or not path.is_file():
            path = _found(name, folders) or path
        if header.text.startswith('"') and not path.is_file():
            raise BadInput(
                f"{file.name}, line {header.token.line}: it includes {header.text}, and {path} is"
                " not there: add it, or replace the line with its text"
            )
        if path.is_file() and (header.text.startswith('"') or _found(name, folders)):
            yield _Include(directive.start, header.start, header.end, path)


def _found(name: str, folders: Sequence[Path]) -> Path | None:
    """The one file of the folders whose path ends so."""
    last = name.rsplit("/", 1)[-1]
    ends = [
        path.resolve()
        for folder in folders
        for path in sorted(folder.rglob(last))
        if f"/{path.as_posix()}".endswith(f"/{name}")
    ]
    return ends[0] if len(set(ends)) == 1 else None


def _pieces(text: str, file: Path) -> list[Piece]:
    try:
        return pieces(text)
    except BadSource as error:
        raise BadInput(f"{file.name}, line {error.line}: {error.reason}") from None


def _name(path: Path, taken: set[str]) -> str:
    """The file's own name; with that of its folder where another has it. Raises BadInput."""
    for name in (path.name, f"{path.parent.name}_{path.name}"):
        if name not in taken:
            if not re.fullmatch(HEADER_NAME, name):
                raise BadInput(
                    f"the name {name} will not do for a header: letters, digits, _, - and . only,"
                    " and it ends in .cuh, .cu, .h, .hpp or .inl"
                )
            return name
    raise BadInput(f"two files are called {path.name}: give one of them another name")
