"""Waits for files that can be read, however high their numbers: select() takes none from 1,024 on,
which a judge with many children reaches."""

from __future__ import annotations

import math
import select
from collections.abc import Iterable


def ready(files: Iterable[int], timeout_s: float | None = None) -> set[int]:
    """The files that can be read, are at their end or broken, once there is one.

    Args:
        files: open file descriptors.
        timeout_s: seconds to wait, rounded up to milliseconds; without end where it is None.

    Returns:
        Those files; none where the time is over before.
    """
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    timeout_ms = None if timeout_s is None else math.ceil(timeout_s * 1000)
    return {file for file, _ in poll.poll(timeout_ms)}
