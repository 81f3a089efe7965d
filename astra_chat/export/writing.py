"""Output files of an export: whole or not at all, and nothing of the user's is overwritten."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from astra_chat.tools.system.files import write_whole
from astra_chat.tools.types import Value
from astra_vgpu.ground.errors import BadInput


def json_lines(rows: Iterable[Value]) -> bytes:
    """A line for each row. Numbers that are not finite are texts, as in transcripts."""
    return "".join(f"{row.model_dump_json()}\n" for row in rows).encode()


def write(out: Path, content: bytes) -> None:
    """Raises BadInput where the file is there already or cannot be written."""
    _require_new(out)
    write_whole(out, content)


def write_folder(out: Path, files: dict[str, bytes]) -> None:
    """A new folder with these files, by their path in it. Raises BadInput."""
    with new_folder(out) as scratch:
        for name, content in files.items():
            path = scratch / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A scratch folder that becomes `out` if all goes well. Raises BadInput where `out` is there
    already or cannot be written."""
    _require_new(out)
    scratch = out.absolute().with_name(f".{out.name}.part")
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        yield scratch
        scratch.replace(out)
    except OSError as error:
        raise BadInput(f"cannot write {out}: {error.strerror}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _require_new(out: Path) -> None:
    try:
        there = out.exists()
    except OSError as error:
        raise BadInput(f"cannot write {out}: {error.strerror}") from None
    if there:
        raise BadInput(f"{out} already exists and is not overwritten: choose another with -o")
