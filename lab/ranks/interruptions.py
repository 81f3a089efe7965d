"""Ranks on virtual GPUs, stopped at drawn moments in the middle of their kernels.

A rank that stops between two instructions while its peers run on shows what a kernel relies on that
no signal ensures. A real GPU offers no such stop.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

RUN_S, STOP_S = 0.05, 0.2
"""Longest drawn times between two stops, and of one stop."""


@contextmanager
def interrupted(processes: Sequence[subprocess.Popen[str]], draw: Random) -> Iterator[None]:
    """Stops one of the processes at a time, and lets it continue.

    Args:
        processes: The ranks, by rank. Those that have ended are left alone.
        draw: Draws which, when and how long.
    """
    over = threading.Event()

    def stop_some() -> None:
        while not over.wait(draw.uniform(0, RUN_S)):
            process = draw.choice(processes)
            process.send_signal(signal.SIGSTOP)
            over.wait(draw.uniform(0, STOP_S))
            process.send_signal(signal.SIGCONT)

    thread = threading.Thread(target=stop_some)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
