"""Stops of a rank on a virtual GPU, at drawn moments in the middle of its kernels.

A rank that stops between two instructions while its peers run shows what a kernel relies on that no
signal ensures. A real GPU offers no such stop.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

RUN_S, STOP_S = 0.01, 0.4
"""Mean processor time between two stops; longest stop, in which a peer can begin its next call."""


@contextmanager
def stopped_at_times(draw: Random) -> Iterator[None]:
    """What runs inside, in the main thread, stops now and then.

    Args:
        draw: Draws when and how long.
    """

    def begin() -> None:
        signal.setitimer(signal.ITIMER_PROF, draw.expovariate(1 / RUN_S))

    def stop(number: int, frame: object) -> None:
        time.sleep(draw.uniform(0, STOP_S))
        begin()

    signal.signal(signal.SIGPROF, stop)
    begin()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
