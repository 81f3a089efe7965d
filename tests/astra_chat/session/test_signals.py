"""Ctrl-C reaches the chat, in a loop of its own or beside a caller's."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from astra_chat.session.signals import in_own_loop, on_signal


@pytest.mark.parametrize(
    ("number", "called"), [(signal.SIGINT, "interrupt"), (signal.SIGTERM, "cancel")]
)
def test_a_signal_calls_its_function_and_raises_nothing(
    number: signal.Signals, called: str
) -> None:
    async def chat() -> list[str]:
        calls: list[str] = []
        with on_signal(lambda: calls.append("interrupt"), lambda: calls.append("cancel")):
            os.kill(os.getpid(), number)
            for _ in range(500):
                await asyncio.sleep(0.01)
                if calls:
                    break
        return calls

    assert in_own_loop(chat, lambda: None) == [called]


def test_beside_a_running_loop_every_ctrl_c_calls() -> None:
    calls: list[int] = []

    async def chat() -> int:
        for number in (1, 2):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            for _ in range(500):
                await asyncio.sleep(0.01)
                if len(calls) == number:
                    break
        return len(calls)

    async def caller() -> int:
        return in_own_loop(chat, lambda: calls.append(1))

    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(caller()) == 2
    loop.close()


def test_signals_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def chat() -> None:
        with on_signal(lambda: None, lambda: None):
            assert signal.getsignal(signal.SIGTERM) != before

    in_own_loop(chat, lambda: None)
    assert signal.getsignal(signal.SIGTERM) == before


def test_beside_a_running_loop_the_chat_gets_a_thread() -> None:
    async def chat() -> str:
        with on_signal(lambda: None, lambda: None):
            return threading.current_thread().name

    async def caller() -> str:
        return in_own_loop(chat, lambda: None)

    assert in_own_loop(chat, lambda: None) == threading.main_thread().name
    assert asyncio.run(caller()) != threading.main_thread().name
