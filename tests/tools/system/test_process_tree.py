"""A process is read together with those that it started, also with those that ended."""

from __future__ import annotations

import os
import subprocess
import sys

from astra_chat.tools.system.process_tree import processor_s, resident_bytes

SPINS = "import time\nwhile time.process_time() < 0.5: pass\n"
STARTS = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {SPINS!r}])\n"
# utime, stime, cutime and cstime are each rounded down to a tick.
ROUNDED_S = 4 / os.sysconf("SC_CLK_TCK")
WAITS = "print('there', flush=True); input()"


def test_time_of_children_that_ended_counts() -> None:
    command = [sys.executable, "-c", STARTS + WAITS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == b"there\n"
        assert processor_s(child.pid) > 0.5 - ROUNDED_S
        assert resident_bytes(child.pid) > 2**20
        child.communicate(b"\n")


def test_a_process_that_is_gone_uses_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert (processor_s(child.pid), resident_bytes(child.pid)) == (0, 0)
    assert processor_s(os.getpid()) > 0
