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


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """A file that the user named and that cannot be read, or is not text, is BadInput."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"cannot read {path}: it is not text") from None
