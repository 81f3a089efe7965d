"""A child's end of the private pipe to its judge (tools/system/subprocesses.py has the other)."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

WATCH_PARENT_S = 1.0


class Reporter:
    """The child's end of the private pipe."""

    def __init__(self, open_gpu: Callable[[int], object] | None = None) -> None:
        """Waits for the request. `open_gpu` is called with a GPU's index before that, where the
        judge says so."""
        envelope = json.loads(sys.stdin.buffer.readline())
        self._nonce, self.pipe = envelope["nonce"], int(envelope["fd"])
        sys.excepthook = self._broken
        if self.pipe >= 0:
            threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
        self.send("ready")
        if (index := envelope.get("gpu")) is not None:
            self._open(open_gpu, index)
            envelope = json.loads(sys.stdin.buffer.read())
        self.request: dict[str, Any] = envelope["request"]

    def _open(self, open_gpu: Callable[[int], object] | None, index: int) -> None:
        """What fails here, such as for want of memory on the GPU, ends this process only."""
        try:
            if open_gpu:
                open_gpu(index)
        except RuntimeError as error:
            self.send("opened", why=str(error).partition("\n")[0])
            raise SystemExit(1) from None
        self.send("opened", why="")

    def send(self, kind: str, **fields: Any) -> None:
        if self.pipe < 0:  # Nsight Compute stands between us: there is no pipe
            return
        line = json.dumps({"nonce": self._nonce, "kind": kind, **fields}) + "\n"
        os.writev(self.pipe, [line.encode()])  # sandbox/seccomp.py leaves no other way

    def _broken(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        """Our own failure is reported on the pipe: a traceback in the output could be anyone's.

        Memory that ran out is left to the exit status: it was the candidate that held it.
        """
        sys.__excepthook__(kind, error, trace)
        if not isinstance(error, MemoryError):
            self.send("broken", message=f"{kind.__name__}: {error}")


def _end_with(parent: int) -> None:
    """A judge that is killed can end nobody, and a hang would outlive it forever."""
    while os.getppid() == parent:
        time.sleep(WATCH_PARENT_S)
    os._exit(1)
