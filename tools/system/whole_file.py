"""A file that the user asked for: written whole, or not at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from astra_vgpu.ground.errors import BadInput


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file at once; where that fails, an earlier one stays. Raises BadInput."""
    scratch = path.with_name(f".{path.name}.part")
    try:
        scratch.write_bytes(content)
        scratch.replace(path)
    except OSError as error:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise BadInput(f"cannot write {path}: {error.strerror}") from None
