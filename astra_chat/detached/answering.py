"""Jobs judged for whoever holds the other end of two pipes: `judge answer`, which a machine reached
by ssh and a worker of Ray run.

On stdin comes a line "astra-jobs LENGTH" and a file of `judge pack` of so many bytes. Then stdin
stays open: its end means that nobody waits any more, and the judge stops. On stdout goes a file of
`judge pack` with the results, on stderr what is told.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from astra_chat.detached.packing import pack, unpack
from astra_chat.detached.worker import Worker
from astra_chat.transcript.archive import MAX_ZIP_BYTES
from astra_vgpu.ground.errors import BadInput

HEAD = re.compile(rb"astra-jobs ([0-9]{1,12})\n")


def framed(packed: bytes) -> bytes:
    """What is to be written to stdin."""
    return b"astra-jobs %d\n%b" % (len(packed), packed)


def read_framed(source: BinaryIO) -> bytes:
    """The file of jobs. Raises BadInput for anything else."""
    head = HEAD.fullmatch(source.readline(64))
    if head is None:
        raise BadInput("no jobs on stdin: runs with --judge ssh:HOST or ray call this command")
    size = int(head[1])
    if size > MAX_ZIP_BYTES:
        raise BadInput(f"the jobs have {size:,} bytes; at most {MAX_ZIP_BYTES:,} are allowed")
    packed = source.read(size)
    if len(packed) < size:
        raise BadInput(f"the jobs are cut off after {len(packed):,} of {size:,} bytes")
    return packed


def own_stdout() -> BinaryIO:
    """The real stdout, for results alone: what else is printed goes to stderr from here on."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return results


def at_end_of(source: BinaryIO, call: Callable[[], None]) -> threading.Event:
    """Call it from another thread where the source ends before the event is set."""
    done = threading.Event()

    def watch() -> None:
        while os.read(source.fileno(), 1):  # no lock of Python's, which its end would wait for
            pass
        if not done.is_set():
            call()

    threading.Thread(target=watch, daemon=True).start()
    return done


def interrupt() -> None:
    """Ctrl-C for this process: what it began is ended and cleaned up."""
    os.kill(os.getpid(), signal.SIGINT)


def answered(packed: bytes, worker: Worker) -> bytes:
    """The results of these jobs, or why they were refused, as a file of `judge pack`.

    Raises BadInput for what is no file of jobs.
    """
    with tempfile.TemporaryDirectory(prefix="astra-answer-") as name:
        file, folder = Path(name, "jobs.zip"), Path(name, "work")
        file.write_bytes(packed)
        folder.mkdir()
        unpack(file, folder)
        worker.work([folder])
        pack([folder], file)
        return file.read_bytes()
