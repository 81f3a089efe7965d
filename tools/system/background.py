"""Work in background threads: what is started before its result is needed, and the removal of
folders, of which ext4 takes some milliseconds each."""

from __future__ import annotations

import atexit
import shutil
import subprocess
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
_folders = dict[Path, None]()
"""Those that wait for their removal, and first the one that is being removed."""
_changed = threading.Condition()
_remover: threading.Thread | None = None


def remove_soon(folder: Path) -> None:
    """Remove a folder and all in it while the caller goes on. Waits where many are to be
    removed."""
    global _remover
    with _changed:
        _changed.wait_for(lambda: len(_folders) < MOST_FOLDERS)
        _folders[folder] = None
        if _remover is None or not _remover.is_alive():  # a forked process has no threads
            _remover = threading.Thread(target=_remove_each, name="remover", daemon=True)
            _remover.start()
        _changed.notify_all()


def finish_removals() -> None:
    """Wait until what was to be removed is: for a process that ends with os._exit."""
    with _changed:
        _changed.wait_for(lambda: not _folders)


def _remove_each() -> None:
    while True:
        with _changed:
            _changed.wait_for(lambda: len(_folders) > 0)
            folder = next(iter(_folders))
        shutil.rmtree(folder, ignore_errors=True)
        with _changed:
            del _folders[folder]
            _changed.notify_all()


@atexit.register
def _hand_over() -> None:
    """Leave to a process of its own what is not removed when Python ends: a run's cases take
    seconds, in which a user would wait for nothing."""
    with _changed:
        left = list(_folders)
    if left and (program := shutil.which("rm")):
        subprocess.Popen(
            [program, "-rf", "--", *left],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    elif left:
        finish_removals()


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
