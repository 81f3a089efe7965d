"""A process is read together with those that it started, also with those that ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from astra_chat.tools.system.process_tree import kill_family, processor_s, resident_bytes

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


def test_children_in_groups_of_their_own_are_killed_too() -> None:
    """Ninja's commands are in such groups."""
    starts = (
        "import subprocess, sys\n"
        "each = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "made = subprocess.Popen(each, process_group=0)\n"
        "print(made.pid, flush=True); made.wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", starts], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        below = int(child.stdout.readline())
        assert os.getpgid(below) == below
        kill_family(child.pid)
        assert child.wait() == -signal.SIGKILL
    for _ in range(100):
        if not Path(f"/proc/{below}").exists() or "Z" in _state(below):
            return
        time.sleep(0.05)
    raise AssertionError("it lives")


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
