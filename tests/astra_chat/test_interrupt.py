"""Ctrl-C reaches the chat, in a loop of its own or beside a caller's."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from astra_chat.interrupt import in_own_loop, on_signal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_calls_cancel_and_raises_nothing(number: signal.Signals) -> None:
    async def chat() -> bool:
        cancelled = asyncio.Event()
        with on_signal(cancelled.set):
            os.kill(os.getpid(), number)
            await asyncio.wait_for(cancelled.wait(), 5)
        return True

    assert in_own_loop(chat, lambda: None)


def test_signals_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def chat() -> None:
        with on_signal(lambda: None):
            assert signal.getsignal(signal.SIGTERM) != before

    in_own_loop(chat, lambda: None)
    assert signal.getsignal(signal.SIGTERM) == before


def test_beside_a_running_loop_the_chat_gets_a_thread() -> None:
    async def chat() -> str:
        with on_signal(lambda: None):
            return threading.current_thread().name

    async def caller() -> str:
        return in_own_loop(chat, lambda: None)

    assert in_own_loop(chat, lambda: None) == threading.main_thread().name
    assert asyncio.run(caller()) != threading.main_thread().name
