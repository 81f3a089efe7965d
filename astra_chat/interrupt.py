"""Event loops and Ctrl-C: a chat can be stopped from a terminal, a script and a notebook."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def on_signal(cancel: Callable[[], None]) -> Iterator[None]:
    """Within the running loop, Ctrl-C and SIGTERM call `cancel` instead of raising anything.

    Python itself would wait for the end of a turn, or never come back from one. Only the main
    thread may take signals; elsewhere they are left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, cancel)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


def in_own_loop(chat: Callable[[], Coroutine[None, None, T]], cancel: Callable[[], None]) -> T:
    """Run the chat in an event loop of its own, also where the caller runs in one (a notebook).

    There a Ctrl-C calls `cancel`, from the caller's thread, and the chat's end is awaited.
    """
    if not _loop_is_running():
        return asyncio.run(chat())
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(lambda: asyncio.run(chat()))
        try:
            return running.result()
        except KeyboardInterrupt:
            cancel()
            return running.result()


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
