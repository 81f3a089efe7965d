"""A child's end of the private pipe to its judge (tools/system/subprocesses.py has the other)."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

WATCH_PARENT_S = 1.0


class Reporter:
    """The child's end of the private pipe."""

    def __init__(self) -> None:
        envelope = json.loads(sys.stdin.buffer.read())
        self.request: dict[str, Any] = envelope["request"]
        self._nonce, self.pipe = envelope["nonce"], int(envelope["fd"])
        sys.excepthook = self._broken
        if self.pipe >= 0:
            threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
        self.send("ready")

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
