"""Work in background threads: what is started before its result is needed, and the removal of
folders, of which ext4 takes some milliseconds each."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from astra_chat.tools.system.subprocesses import Cancelled
from astra_vgpu.ground.errors import AstraError

MOST_FOLDERS = 32
"""Folders that wait for their removal: they can be large."""
_remover, _room = ThreadPoolExecutor(1, "remover"), threading.Semaphore(MOST_FOLDERS)


def remove_soon(folder: Path) -> None:
    """Remove a folder and all in it while the caller goes on. Waits where many are to be
    removed."""
    _room.acquire()
    try:
        _remover.submit(_remove, folder)
    except RuntimeError:  # Python is about to end
        _remove(folder)


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
