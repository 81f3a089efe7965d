"""Work in background threads: what is started before its result is needed, and the removal of
folders, of which ext4 takes some milliseconds each."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from astra_chat.tools.system.cores import cores
from astra_chat.tools.system.subprocesses import Cancelled, Stop
from astra_vgpu.ground.errors import AstraError

MOST_FOLDERS = 32
"""Folders that wait for their removal: they can be large."""
LEAST_CORES = 4
"""On a machine of fewer, what is begun ahead would take the cores of what is waited for."""
T = TypeVar("T")
_remover, _room = ThreadPoolExecutor(1, "remover"), threading.Semaphore(MOST_FOLDERS)


def remove_soon(folder: Path) -> None:
    """Remove a folder and all in it while the caller goes on. Waits where many are to be
    removed."""
    _room.acquire()
    try:
        _remover.submit(_remove, folder)
    except RuntimeError:  # Python is about to end
        _remove(folder)


def finish_removals() -> None:
    """Wait until what was to be removed is: for a process that ends with os._exit, which leaves
    threads as they are. What comes later is removed at once."""
    _remover.shutdown()


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        _room.release()


class Background:
    """One piece of work in a thread of its own, done once at most.

    What fails there, fails again for whoever needs its result, who can say so.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, unless it was begun."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._quietly, daemon=True)
            self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Until it is done, if it was begun."""
        if self._thread is not None:
            self._thread.join()

    def _quietly(self) -> None:
        with suppress(AstraError, Cancelled, OSError):
            self._work()


def begins_ahead() -> bool:
    """Whether this machine has cores for what nobody waits for yet."""
    return cores() >= LEAST_CORES


class Ahead(Generic[T]):
    """Work whose result is asked for later. Where the machine has cores for it, it is begun at once
    in a thread of its own; else whoever asks does it. The result is the same."""

    def __init__(self, work: Callable[[Stop], T], stop: Stop) -> None:
        """`work` raises Cancelled once the stop that it is given is set, or `stop` is."""
        self._work, self._stop = work, Stop(beside=stop)
        self._future: Future[T] | None = None
        if begins_ahead():
            self._pool = ThreadPoolExecutor(1, "astra-ahead")
            self._future = self._pool.submit(work, self._stop)

    @property
    def begun(self) -> bool:
        """Whether it was begun at once."""
        return self._future is not None

    def result(self) -> T:
        """Raises what the work raises."""
        return self._work(self._stop) if self._future is None else self._future.result()

    def end(self) -> None:
        """Stop it, where nobody waits for its result any more."""
        self._stop.set()
        if self._future is not None:
            self._pool.shutdown()
