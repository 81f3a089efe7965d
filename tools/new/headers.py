"""A kernel's files as one source and its headers; all lie flat in the task folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from astra_chat.tools.errors import BadInput, reading
from astra_chat.tools.new import framework
from astra_chat.tools.new.source import Piece, pieces
from astra_chat.tools.task.folder import HEADER_NAME

TAKEN = ("kernel.cu", "baseline.cu", "paper.cu")
"""Files that a build or a task's folder has already."""
_ONCE = re.compile(r"^\s*#\s*pragma\s+once\s*$", re.MULTILINE)


def gathered(kernels: Sequence[Path]) -> tuple[str, dict[str, str]]:
    """The kernel files as one source, and by name the text of every file that they include in
    quotes, and of those that these do. Includes name the files as they lie in the task's folder.

    Files are looked for as a compiler does first: beside the one that includes them. One that needs
    a framework stands in the source itself, where the framework is cut. Raises BadInput where a
    file is not there or cannot be named.
    """
    headers = _Headers()
    source = "\n".join(headers.renamed(read(kernel), kernel) for kernel in kernels)
    texts: dict[str, str] = {}
    while waiting := [path for path, name in headers.names.items() if name not in texts]:
        for path in waiting:
            texts[headers.names[path]] = headers.renamed(read(path), path)
    return source, dict(sorted(texts.items()))


def read(path: Path) -> str:
    """A source's text. Raises BadInput."""
    with reading(path):
        return path.read_text()


class _Headers:
    """What was included so far."""

    def __init__(self) -> None:
        self.names: dict[Path, str] = {}
        self._foreign: dict[Path, bool] = {}
        self._stands: set[Path] = set()
        """Files whose text stands in the source."""

    def renamed(self, text: str, file: Path) -> str:
        """The text of a file with its includes by the new names."""
        parts, at = [], 0
        for include in _own_includes(text, file):
            path = include.path
            if self._needs_framework(path):
                parts += [text[at : include.start], self._text(path)]
            else:
                if path not in self.names:
                    self.names[path] = _name(path, {*TAKEN, *self.names.values()})
                parts += [text[at : include.name], f'"{self.names[path]}"']
            at = include.end
        return "".join([*parts, text[at:]])

    def _text(self, path: Path) -> str:
        if path in self._stands:
            return ""
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
            ) or any(self._needs_framework(one.path) for one in _own_includes(text, path))
        return self._foreign[path]


@dataclass(frozen=True)
class _Include:
    """An include in quotes: where the directive starts, and its name; and what it names."""

    start: int
    name: int
    end: int
    path: Path


def _own_includes(text: str, file: Path) -> Iterator[_Include]:
    """Includes in quotes that are no framework's."""
    for directive, header in pairwise(_pieces(text, file)):
        own = header.token.kind == "header" and header.text.startswith('"')
        if not own or framework.is_framework_header(header.text):
            continue
        path = (file.parent / header.text.strip('"')).resolve()
        if not path.is_file():
            raise BadInput(
                f"{file.name}: line {header.token.line}: it includes {header.text}, and {path} is"
                " not there: add it, or replace the line with its text"
            )
        yield _Include(directive.start, header.start, header.end, path)


def _pieces(text: str, file: Path) -> list[Piece]:
    try:
        return pieces(text)
    except BadInput as error:
        raise BadInput(f"{file.name}: {error}") from None


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
