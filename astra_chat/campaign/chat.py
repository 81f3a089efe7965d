"""One chat of a campaign: `astra-chat` in a process that is stopped, resumably, when the driver is
gone, however that ended.

A process each: a chat takes Ctrl-C and SIGTERM for itself, and one that crashes leaves the others
alone.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """The driver's process id, then what stands after `astra-chat`."""
    driver = int(sys.argv.pop(1))
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != driver:
        sys.exit(130)
    runpy.run_module("astra_chat", run_name="__main__")


if __name__ == "__main__":
    main()
