"""Output files of an export: whole or not at all, and nothing of the user's is overwritten."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from astra_chat.tools.errors import BadInput
from astra_chat.tools.types import Value


def json_lines(rows: Iterable[Value]) -> bytes:
    """A line for each row. Numbers that are not finite are texts, as in transcripts."""
    return "".join(f"{row.model_dump_json()}\n" for row in rows).encode()


def write(out: Path, content: bytes) -> None:
    """Raises BadInput where the file is there already or cannot be written."""
    scratch = out.with_name(f".{out.name}.part")
    try:
        if out.exists():
            raise BadInput(f"{out} exists already and is not overwritten: name another with -o")
        scratch.write_bytes(content)
        scratch.replace(out)
    except OSError as error:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise BadInput(f"cannot write {out}: {error.strerror}") from None


def write_folder(out: Path, files: dict[str, bytes]) -> None:
    """A new folder with these files, by their path in it. Raises BadInput."""
    if out.exists():
        raise BadInput(f"{out} exists already and is not overwritten: name another with -o")
    scratch = out.with_name(f".{out.name}.part")
    try:
        for name, content in files.items():
            path = scratch / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        scratch.replace(out)
    except OSError as error:
        raise BadInput(f"cannot write {out}: {error.strerror}") from None
