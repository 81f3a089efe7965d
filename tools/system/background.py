"""Work in a background thread that is started before its result is needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from astra_chat.tools.system.subprocesses import Cancelled
from astra_vgpu.ground.errors import AstraError


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
