"""Failures that are not the kernel's: bad input (exit code 2), a missing dependency or an error of
our own (3). Exit code 1 means that the kernel failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class AstraError(Exception):
    """Base of the failures that the command line shows as one line, without a traceback."""

    exit_code = 3


class BadInput(AstraError):
    """The user gave something that cannot be used: the message says what, where, and what to do."""

    exit_code = 2


class MissingDependency(AstraError):
    """Something is missing on this machine: the message names it and how to get it."""

    exit_code = 3


def failure(error: BaseException) -> tuple[str, int]:
    """What a user is told about a failure, in one line, and the exit code: the same words wherever
    Astra is called from."""
    if isinstance(error, AstraError):
        return str(error), error.exit_code
    if isinstance(error, OSError):  # a full disk, a folder that cannot be written
        what = error.strerror or str(error) or type(error).__name__
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{what} (ASTRA_DEBUG=1 shows more)", MissingDependency.exit_code
    words = f"internal error: {type(error).__name__}: {error} (ASTRA_DEBUG=1 shows more)"
    return words, MissingDependency.exit_code


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """A file that the user named and that cannot be read, or is not text, is BadInput."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"cannot read {path}: it is not text") from None
