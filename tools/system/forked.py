"""Processes that a server forks (tools/sandbox/fork_server.py), as seen by their judge."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from astra_chat.tools.sandbox.fork_server import NUMBER
from astra_chat.tools.sandbox.isolation import isolation
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.sandbox.ready import ready
from astra_vgpu.ground.errors import AstraError

KILLED = -9
"""Exit code of a process whose server is gone: it ended with the server."""


class Forked:
    """A forked process: what the rest needs of subprocess.Popen."""

    def __init__(self, given: int, printed: int, status: int) -> None:
        self.stdin, self.stdout = os.fdopen(given, "wb"), os.fdopen(printed, "rb")
        self.returncode: int | None = None
        self._status, self._lock = os.fdopen(status, "rb", buffering=0), threading.Lock()
        self.pid = self._number()
        """The process's id; KILLED where the server is gone."""

    def _number(self) -> int:
        found = self._status.read(NUMBER.size) or b""
        return int(NUMBER.unpack(found)[0]) if len(found) == NUMBER.size else KILLED

    @property
    def end(self) -> int:
        """A file that can be read once the process has ended, until that is known here."""
        return self._status.fileno()

    def poll(self) -> int | None:
        """Returns its exit code, as subprocess does, or None while it runs."""
        with self._lock:
            if self.returncode is None and ready([self._status.fileno()], 0):
                self._ended()
            return self.returncode

    def wait(self) -> int:
        """Returns its exit code once it has ended."""
        with self._lock:
            if self.returncode is None:
                self._ended()
            assert self.returncode is not None
            return self.returncode

    def _ended(self) -> None:
        self.returncode = self._number()
        self._status.close()


class ForkServer:
    """Starts processes of these modules; its own process starts with the first of them."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules, self._lock = tuple(modules), threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._printed: IO[bytes]
        self._last_words = ""

    def serves(self, module: str) -> bool:
        """Whether it can start this module here: not where bubblewrap stands between."""
        return module in self._modules and isolation() == "landlock"

    def begin(self, environment: Mapping[str, str]) -> None:
        """Start the server's own process, unless it runs or can start nothing here: it loads its
        modules while others work."""
        if not self.serves(self._modules[0]):
            return
        with self._lock:
            if self._line is None:
                self._begun(environment)

    def start(
        self,
        module: str,
        sandbox: SandboxPolicy | None,
        environment: Mapping[str, str],
        report: int,
    ) -> Forked:
        """Start one, in its sandbox, if it has one; `report` is the writing end of its pipe to the
        judge, which it has as fork_server.REPORT. Raises AstraError where no server can be had."""
        asked = {
            "module": module,
            "order": json.loads(sandbox.order()) if sandbox else None,
            "environment": dict(environment),
            "folder": str(Path.cwd()),
        }
        message = json.dumps(asked).encode()
        with self._lock:
            for _ in range(2):
                started = self._asked(message, environment, report)
                if started.pid != KILLED:
                    return started
                self._end()
        raise AstraError(f"the process that starts {module} ended: {self._last_words}")

    def _asked(self, message: bytes, environment: Mapping[str, str], report: int) -> Forked:
        line = self._line or self._begun(environment)
        given, printed, status = os.pipe(), os.pipe(), os.pipe()
        theirs = (given[0], printed[1], report, status[1])
        with suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(line, [NUMBER.pack(len(message))], theirs)
            line.sendall(message)
        for file in (given[0], printed[1], status[1]):
            os.close(file)
        return Forked(given[1], printed[0], status[0])

    def _begun(self, environment: Mapping[str, str]) -> socket.socket:
        """Start the server; it ends when the judge's end of the line is closed."""
        ours, theirs = socket.socketpair()
        program = "astra_chat.tools.sandbox.fork_server"
        atexit.register(self._end)
        self._printed = tempfile.TemporaryFile()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", program, str(theirs.fileno()), *self._modules],
                stdin=subprocess.DEVNULL,
                stdout=self._printed,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._line = ours
        return ours

    def _end(self) -> None:
        """End the server, and with it what it started."""
        atexit.unregister(self._end)
        if self._line is None or self._server is None:
            return
        self._line.close()
        self._server.wait()
        self._printed.seek(0)
        self._last_words = self._printed.read().decode(errors="replace").strip()[-300:]
        self._printed.close()
        self._line = self._server = None


# The servers that fork child processes, and which modules each has loaded.

VIRTUAL = ForkServer(
    (
        "astra_chat.tools.runners.virtual",
        "astra_chat.tools.runners.virtual_far",
        "astra_chat.tools.runners.translate",
        "astra_chat.tools.runners.recorded_plans",
    ),
)
"""Starts the processes of the virtual GPU: they need neither torch nor CUDA, and are many."""
TORCH = ForkServer(
    (
        "astra_chat.tools.runners.oracle",
        "astra_chat.tools.runners.cuda",
        "astra_chat.tools.runners.cuda_sweep",
    ),
)
"""Starts the processes that need torch, which takes seconds to load. It touches no GPU: a context
of CUDA's does not survive a fork, so each process makes its own."""


def server_of(module: str) -> ForkServer | None:
    """Returns the server that starts a module of tools/runners/, if one does here."""
    return next((one for one in (VIRTUAL, TORCH) if one.serves(module)), None)
