"""Arguments of commands that name files: what is missing is reported before anything is loaded."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from astra_vgpu.ground.errors import BadInput, reading

STDIN = "-"
P = TypeVar("P", Path, Path | None, list[Path])


def present(given: P) -> P:
    """A callback of files and folders that have to be there, - being stdin: one that is missing is
    reported before anything is loaded. Raises BadInput."""
    for path in given if isinstance(given, list) else [given]:
        if path is not None and str(path) != STDIN:
            with reading(path), suppress(NotADirectoryError):  # it may lie in an archive
                path.stat()
    return given


def require_folder(folder: Path) -> Path:
    """A callback, too. Raises BadInput unless there is a folder in which runs may lie."""
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder: give a folder that contains runs")
    return folder


RunArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A transcript, or the folder of a run.", callback=present),
]
TranscriptsArgument = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Transcripts, or folders of runs.", callback=present),
]
