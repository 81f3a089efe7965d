"""stdout and stderr as a command line program should treat them: a reader may go away at any time,
and what cannot be written is said in one line."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from typing import TextIO

from astra_vgpu.ground.errors import MissingDependency


class OutputFailed(MissingDependency):
    """stdout takes no more: its disk is full, for one."""


class _Output(io.FileIO):
    """A file descriptor to write to. Where its reader is gone, what is written goes nowhere: the
    command still ends with its own exit code, and a run is not cut short."""

    def __init__(self, descriptor: int, required: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._required = required

    def write(self, data: object, /) -> int:
        """Raises OutputFailed where it is required and cannot be written."""
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            self._discard()
            if self._required and error.errno != errno.EPIPE:
                raise OutputFailed(f"cannot write to stdout: {error.strerror}") from None
            return memoryview(data).nbytes  # type: ignore[arg-type]

    def _discard(self) -> None:
        """From now on everything that is written here goes nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def prepare() -> None:
    """Put such streams in place of the process's own; not of those that a test has put there."""
    if sys.stdout is sys.__stdout__:
        sys.stdout = _stream(sys.stdout, required=True)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _stream(sys.stderr, required=False)


def flush() -> None:
    """Write what is left. Raises OutputFailed."""
    sys.stdout.flush()
    sys.stderr.flush()


def _stream(stream: TextIO | None, required: bool) -> TextIO:
    """Returns a stream on the same file with the same encoding, which writes characters that the
    encoding lacks as escape sequences."""
    if stream is None:  # closed before we began
        return Path(os.devnull).open("w")
    stream.flush()
    raw = _Output(stream.fileno(), required)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.isatty() or not required,
        write_through=getattr(stream, "write_through", False),
    )
