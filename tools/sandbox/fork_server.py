"""`python -m astra_chat.tools.sandbox.fork_server SOCKET MODULE...`: starts processes that have
these modules loaded, by forking itself.

Loading them takes most of a second of processor time, which is most of what a short run takes. The
server runs no candidate and holds no key: its environment is a runner's. It serves one judge at the
other end of the socket (tools/system/forked.py), and ends with it. Each process is for one request:
it enters its sandbox before it reads what it is to do, and ends when that is done. Processes of one
server share the addresses of what was loaded, and Python's hash seed; nothing else.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import struct
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from astra_chat.tools.sandbox import launch
from astra_chat.tools.sandbox.ready import ready
from astra_vgpu.ground.freed_memory import keep_freed_memory

REPORT = 3
"""The number under which a forked process has the pipe to its judge."""
NUMBER = struct.Struct("=q")
"""A length, a process id or an exit code, as it is sent."""
FILES = 4
"""With a request come its standard input, its output, the pipe to the judge and one that tells the
process id and, at the end, the exit code."""


def main() -> None:
    line = socket.socket(fileno=int(sys.argv[1]))
    modules = {name: import_module(name) for name in sys.argv[2:]}
    keep_freed_memory()
    gc.freeze()  # a collection in a child would copy every page that holds an object
    # Threads of NumPy's libraries, which these start again in the child.
    warnings.simplefilter("ignore", DeprecationWarning)
    running = dict[int, tuple[int, int]]()
    while True:
        readable = ready([line.fileno(), *running])
        for ended in [file for file in running if file in readable]:
            _tell_end(ended, *running.pop(ended))
        if line.fileno() in readable and not _served(line, modules, running):
            break
    for pid, _ in running.values():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _served(
    line: socket.socket, modules: Mapping[str, ModuleType], running: dict[int, tuple[int, int]]
) -> bool:
    """Start one process; False where the judge is gone."""
    head, files, _, _ = socket.recv_fds(line, NUMBER.size, FILES, socket.MSG_WAITALL)
    if len(head) < NUMBER.size:
        return False
    asked = line.recv(NUMBER.unpack(head)[0], socket.MSG_WAITALL)
    if not (pid := os.fork()):
        _become(modules, json.loads(asked), files)
    *others, status = files
    for file in others:
        os.close(file)
    os.write(status, NUMBER.pack(pid))
    running[os.pidfd_open(pid)] = pid, status
    return True


def _tell_end(ended: int, pid: int, status: int) -> None:
    os.close(ended)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):
        os.write(status, NUMBER.pack(code))
    os.close(status)


def _become(
    modules: Mapping[str, ModuleType], asked: Mapping[str, Any], files: Sequence[int]
) -> NoReturn:
    """Be the process that was asked for, until its end."""
    code = 1
    try:
        given, printed, report, _ = files
        os.setsid()
        for number, file in enumerate((given, printed, printed, report)):
            os.dup2(file, number)
        os.closerange(REPORT + 1, os.sysconf("SC_OPEN_MAX"))
        os.environ.clear()
        os.environ.update(asked["environment"])
        tempfile.tempdir = None
        os.chdir(asked["folder"])
        if asked["order"] is not None:
            launch.apply(asked["order"])
        modules[asked["module"]].main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
