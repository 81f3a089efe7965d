"""A kernel's own headers, wherever they lie: all go flat into the task's folder."""

from __future__ import annotations

import re
from pathlib import Path

from astra_chat.tools.errors import BadInput
from astra_chat.tools.new import framework
from astra_chat.tools.new.source import Piece, pieces
from astra_chat.tools.tasks import HEADER_NAME

TAKEN = ("kernel.cu", "baseline.cu", "paper.cu")
"""Files that a build or a task's folder has already."""


def gathered(source: str, kernel: Path) -> tuple[str, dict[str, str]]:
    """The source, and the text of every file by name that it includes in quotes, and of those that
    these do. In all of them, includes name the files as they lie in the task's folder.

    Files are looked for as a compiler does first: beside the one that includes them. Raises
    BadInput where one is not there or cannot be named.
    """
    names: dict[Path, str] = {}
    texts: dict[str, str] = {}
    source = _renamed(source, kernel.parent, names)
    waiting = list(names)
    while waiting:
        path = waiting.pop()
        known = set(names)
        try:
            texts[names[path]] = _renamed(read(path), path.parent, names)
        except BadInput as error:
            raise BadInput(f"{path.name}: {error}") from None
        waiting += set(names) - known
    return source, dict(sorted(texts.items()))


def read(path: Path) -> str:
    """A source's text. Raises BadInput."""
    try:
        return path.read_text()
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"cannot read {path}: it is not text") from None


def _renamed(text: str, beside: Path, names: dict[Path, str]) -> str:
    """The text with its includes by the files' new names; new files are added to `names`."""
    parts, at = [], 0
    for piece in _own_includes(text):
        path = (beside / piece.text.strip('"')).resolve()
        if not path.is_file():
            raise BadInput(
                f"line {piece.token.line}: it includes {piece.text}, and {path} is not there: put"
                " it there, or its text in its place"
            )
        if path not in names:
            names[path] = _name(path, {*TAKEN, *names.values()})
        parts += [text[at : piece.start], f'"{names[path]}"']
        at = piece.end
    return "".join([*parts, text[at:]])


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


def _own_includes(source: str) -> list[Piece]:
    """Names in quotes that are no framework's."""
    return [
        piece
        for piece in pieces(source)
        if piece.token.kind == "header"
        and piece.text.startswith('"')
        and not framework.is_framework_header(piece.text)
    ]
