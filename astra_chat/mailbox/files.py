"""Files in a folder that others write, too: whole or not there, and read within bounds."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from astra_vgpu.ground.errors import MissingDependency

MAX_BYTES = 2**22
"""Bytes of one file at most: a source of the most characters that a model may give, each
escaped."""


class Unreadable(ValueError):
    """A file is there and cannot be used; its text says why, as a half-sentence."""


def read_text(path: Path) -> str | None:
    """The text of a regular file; None if there is none. Follows no link, waits for no pipe.

    Raises Unreadable for anything else, for text that is not UTF-8 and for more than MAX_BYTES.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        what = "a link" if error.errno == errno.ELOOP else error.strerror
        raise Unreadable(f"{path.name} cannot be read: {what}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable(f"{path.name} is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise Unreadable(f"{path.name} is larger than {MAX_BYTES:,} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Unreadable(f"{path.name} is not UTF-8 text") from None


def write_new(path: Path, text: str) -> bool:
    """Write a file in one piece; False if it is there already, and stays as it is.

    Raises MissingDependency where it cannot be written: then nothing of it is there.
    """
    with _written_beside(path, text) as part:
        try:
            os.link(part, path)  # fails where a file is there: the first one stays
        except FileExistsError:
            return False
    return True


def replace(path: Path, text: str) -> None:
    """Write a file in one piece, in the place of one that may be there. Raises MissingDependency
    where it cannot be written: then nothing has changed."""
    with _written_beside(path, text) as part:
        part.replace(path)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder that becomes `folder` when the block ends well: nobody reads half of it, and the
    first of two stays. Raises MissingDependency where there is none in the end."""
    part = None
    try:
        part = Path(tempfile.mkdtemp(prefix=".part-", dir=folder.parent))
        part.chmod(0o755)
        yield part
        part.rename(folder)
    except OSError as error:
        if not folder.is_dir():
            raise MissingDependency(f"cannot write {folder}: {error.strerror}") from None
    finally:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _written_beside(path: Path, text: str) -> Iterator[Path]:
    """A file on the disk with this text, in the folder of `path`, to be put in its place. Raises
    MissingDependency where that, or what is done with it, fails."""
    part = None
    try:
        descriptor, part = tempfile.mkstemp(prefix=".part-", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, 0o644)  # noqa: PTH101
        yield Path(part)
    except OSError as error:
        raise MissingDependency(f"cannot write {path}: {error.strerror}") from None
    finally:
        if part is not None:
            Path(part).unlink(missing_ok=True)
