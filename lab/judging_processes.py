"""Judges side by side, each in a process of its own: in threads of one process they wait for its
interpreter, in which a check takes ten seconds (docs/research/measurements.md)."""

from __future__ import annotations

import lzma
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from astra_chat.tools.system.cores import THREADS, cores
from astra_vgpu.ground.errors import AstraError


@contextmanager
def judging_processes(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of `workers` processes, among which this machine's cores are shared out. What has not
    begun is cancelled where the block ends with an exception.

    Raises AstraError where one of them was killed.
    """
    each = max(1, cores() // workers)
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin, (each,)) as pool:
        try:
            yield pool
        except BrokenProcessPool:
            raise AstraError(
                "a judging process was killed, perhaps because memory ran out: start the command"
                " again with fewer --workers"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def append(path: Path, line: str) -> None:
    """Append a line in one piece, since other processes append to the file as well; compressed
    where its name ends in .xz."""
    content = f"{line}\n".encode()
    with path.open("ab", buffering=0) as file:
        file.write(lzma.compress(content) if path.suffix == ".xz" else content)


def _begin(threads: int) -> None:
    os.environ.setdefault(THREADS, str(threads))
