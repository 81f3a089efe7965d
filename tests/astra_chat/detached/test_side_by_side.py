"""Workers side by side end with the first, also where a shell lets them ignore Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from astra_chat.detached.side_by_side import most_workers
from tests.chat_samples import DEVICE

FIRST = """
import sys, time
from astra_chat.detached.side_by_side import Beside
words = [sys.argv[1], "--device", "virtual", "--workers", "1", "--beside"]
with Beside(words, 1, print) as others:
    print(others._running[0][0].pid, flush=True)
    time.sleep(600)
"""
LOOKS, LOOK_S = 600, 0.2


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_the_others_end_where_the_first_is_killed(tmp_path: Path) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", FIRST, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert first.stdout is not None
    other = int(first.stdout.readline())
    assert not has_ended(other)
    first.kill()
    first.wait()
    for _ in range(LOOKS):
        if has_ended(other):
            break
        time.sleep(LOOK_S)
    assert has_ended(other)


def test_a_machine_without_a_gpu_has_one_worker() -> None:
    assert most_workers(DEVICE) == 1
