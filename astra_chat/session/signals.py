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


class StopRun:
    """Stops a run from another thread: at once, resumably, as a second Ctrl-C does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = False
        self._stops: Callable[[], None] | None = None

    def __call__(self) -> None:
        """Stop it, or let it stop as soon as it has begun."""
        with self._lock:
            self._asked, stops = True, self._stops
        if stops is not None:
            stops()

    def bind(self, stops: Callable[[], None]) -> None:
        """The run has begun, and `stops` stops it."""
        with self._lock:
            self._stops, asked = stops, self._asked
        if asked:
            stops()


class ChatLoop:
    """The event loop of the chat, for those who call into it from other threads."""

    def __init__(self, stop: StopRun | None = None) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = stop

    def enter(self, cancel: Callable[[], None] = lambda: None) -> None:
        """Call it within the chat: from here on calls arrive. `cancel` ends the chat at once."""
        self._loop = asyncio.get_running_loop()
        if self._stop is not None:
            self._stop.bind(lambda: self.call(cancel))
        # AutoGen leaves tasks behind whose errors nobody fetches; ours are handed over by agents.
        self._loop.set_exception_handler(lambda loop, context: None)

    def call(self, work: Callable[..., None], *arguments: object) -> None:
        """Call `work` in the chat's thread, if the chat is under way."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work, *arguments)


@contextmanager
def on_signal(interrupt: Callable[[], None], cancel: Callable[[], None]) -> Iterator[None]:
    """Within the running loop, Ctrl-C calls `interrupt` and SIGTERM `cancel`; nothing is raised.

    Python itself would wait for the end of a turn, or never come back from one. Only the main
    thread may take signals; elsewhere they are left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)


@contextmanager
def plain_ctrl_c() -> Iterator[None]:
    """Between turns, where somebody is asked: Ctrl-C raises KeyboardInterrupt at once.

    asyncio would only cancel the task, which does not end a wait for the terminal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def in_own_loop(chat: Callable[[], Coroutine[None, None, T]], interrupt: Callable[[], None]) -> T:
    """Run the chat in an event loop of its own, also where the caller runs in one (a notebook).

    There every Ctrl-C calls `interrupt`, from the caller's thread, and the chat's end is awaited.
    """
    if not _loop_is_running():
        return asyncio.run(chat())
    with _ctrl_c_calls(interrupt), ThreadPoolExecutor(1) as threads:
        return threads.submit(lambda: asyncio.run(chat())).result()


@contextmanager
def _ctrl_c_calls(interrupt: Callable[[], None]) -> Iterator[None]:
    """A handler, not an exception: that could strike before anybody is there to catch it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: interrupt())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
