"""Tries again, with growing waits, where a server is busy, fails or cannot be reached."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

LONGEST_WAIT_S = 30.0
LONGEST_ASKED_WAIT_S = 120.0
"""A server that asks for a longer pause is not waited for that long."""

logger = logging.getLogger(__name__)


def wait_s(number: int, first_s: float, asked_s: float | None = None) -> float:
    """Seconds before try `number` + 1: what the server asked for, else doubling from `first_s`.

    A quarter of it is random, so that several runs do not come back at the same moment.
    """
    if asked_s is not None:
        return min(max(asked_s, 0.0), LONGEST_ASKED_WAIT_S)
    return min(first_s * 2.0 ** (number - 1), LONGEST_WAIT_S) * random.uniform(0.75, 1.25)


async def persist(
    ask: Callable[[], Awaitable[T]],
    tries: int,
    first_s: float,
    passing: Callable[[Exception], bool],
    asked_s: Callable[[Exception], float | None],
    said: Callable[[Exception], str] = str,
) -> T:
    """Await `ask` until it answers, at most `tries` times.

    An error that is not `passing`, or the last one, is raised as it is; of the others `said` is
    logged.
    """
    for number in range(1, tries):
        try:
            return await ask()
        except Exception as error:
            if not passing(error):
                raise
            pause = wait_s(number, first_s, asked_s(error))
            logger.warning(
                "%s; try %d of %d in %.1f s",
                said(error),
                number + 1,
                tries,
                pause,
            )
        await asyncio.sleep(pause)
    return await ask()
