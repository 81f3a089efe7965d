"""A child behind walls that is started before its request is known, and waits for it.

Its request is a line on standard input: a pipe with a name, since what starts the child may stand
between us. Both sides hold both ends of it, so nobody waits for the other to open it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path

from astra_chat.tools.process import (
    Cancelled,
    Finished,
    StepMemory,
    StepTimeout,
    Stop,
    run_limited,
)
from astra_chat.tools.sandbox.walls import Walls

POLL_S = 0.02
MOST_S = 3600.0
"""However long it waits: then it is stopped."""


class Waiting:
    """A child that waits. Its folder, made for it, is where it works and may write."""

    def __init__(
        self, argv: Callable[[Path], Sequence[str]], walls: Callable[[Path], Walls]
    ) -> None:
        """Both are told the folder. Close it in the end, asked or not."""
        self.folder = Path(tempfile.mkdtemp(prefix="astra-tool-"))
        asked = self.folder / "asked"
        os.mkfifo(asked)
        self._line, self._stop = os.open(asked, os.O_RDWR), Stop()
        self._thread = ThreadPoolExecutor(1, "astra-tool")
        self._end: Future[Finished] = self._thread.submit(
            run_limited,
            ["/bin/sh", "-c", 'exec "$@" <>"$0"', str(asked), *argv(self.folder)],
            timeout_s=MOST_S, walls=walls(self.folder), cwd=self.folder, stop=self._stop,
        )  # fmt: skip

    def ask(self, request: str, timeout_s: float, stop: Stop) -> Finished:
        """Its end, after a request of one line; it may run so long from now on.

        Raises StepTimeout, StepMemory or Cancelled after killing it.
        """
        os.write(self._line, request.encode() + b"\n")
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self._end.result(POLL_S)
            except NotYet:
                stop.check()
            if time.monotonic() > deadline:
                raise StepTimeout

    def close(self) -> None:
        """End it if it still runs; delete its folder."""
        self._stop.set()
        try:
            self._end.result()
        except (Cancelled, StepMemory, StepTimeout):
            pass
        finally:
            self._thread.shutdown()
            os.close(self._line)
            shutil.rmtree(self.folder, ignore_errors=True)
