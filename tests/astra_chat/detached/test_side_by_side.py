"""Workers side by side end with the first, also where a shell lets them ignore Ctrl-C."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

FIRST = """
import sys, time
from astra_chat.detached.side_by_side import Beside
words = [sys.argv[1], "--device", "virtual", "--workers", "1", "--beside"]
with Beside(words, 1, print) as others:
    print(others._running[0][0].pid, flush=True)
    time.sleep(600)
"""


def test_the_others_end_where_the_first_is_killed(tmp_path: Path) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", FIRST, str(tmp_path)],
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert first.stdout is not None
    other = os.pidfd_open(int(first.stdout.readline()))
    assert not select.select([other], [], [], 0)[0]
    first.kill()
    first.wait()
    assert select.select([other], [], [], 120)[0]
