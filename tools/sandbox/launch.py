"""`python -m astra_chat.tools.sandbox.launch ORDER COMMAND...`: applies the sandbox, runs COMMAND.

ORDER is what `policy.SandboxPolicy.order` wrote. Beside landlock and seccomp, the sandbox lowers
limits and privileges: file sizes, memory, core dumps, capabilities, OOM score. RLIMIT_NPROC is left
out: it counts all processes of a user and none of root's. Imports little: every build and every
runner starts through this module.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from astra_chat.tools.sandbox import landlock, seccomp

CAPSET, CAPABILITY_VERSION_3 = 126, 0x20080522
READ_SEARCH = 1 << 2
"""CAP_DAC_READ_SEARCH: root in a container must still find files of the user who owns them."""


def apply(order: Mapping[str, Any]) -> None:
    """Put this process, and all that it starts, into the sandbox; for good."""
    limit(order["memory_bytes"], order["file_bytes"])
    if order["landlock"]:
        landlock.restrict(order["read"], order["write"], order["list"], network=order["network"])
    if order["seccomp"]:
        seccomp.wall(network=order["network"], local_sockets=order["gpu"])
        if not order["privileges"]:
            drop_capabilities()


def limit(memory_bytes: int | None, file_bytes: int) -> None:
    """No core dumps; files of at most `file_bytes`; addresses of at most `memory_bytes`."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, file_bytes)
    if memory_bytes:
        _lower(resource.RLIMIT_AS, memory_bytes)
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        pass  # no Linux, or an older container: the limits above hold without it


def drop_capabilities() -> None:
    """Root keeps its name only: with no_new_privs set, no program gets anything back."""
    if os.geteuid() != 0:
        return
    head = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)(READ_SEARCH, READ_SEARCH, 0, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(CAPSET, ctypes.byref(head), ctypes.byref(sets)):
        number = ctypes.get_errno()
        raise OSError(number, f"capset: {os.strerror(number)}")


def _lower(kind: int, value: int) -> None:
    """Never above what is already in force."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def main() -> None:
    order, command = json.loads(sys.argv[1]), sys.argv[2:]
    apply(order)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
