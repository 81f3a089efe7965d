"""Trying again."""

from __future__ import annotations

import asyncio
import time

import pytest

from astra_chat.models.retry import LONGEST_ASKED_WAIT_S, persist, wait_s


def attempt(failures: int, tries: int, asked_s: float | None = None) -> tuple[int, float]:
    """How often something was tried that fails so often, and how long it took."""
    calls = 0

    async def work() -> str:
        nonlocal calls
        calls += 1
        if calls <= failures:
            raise OSError(f"failure {calls}")
        return "done"

    began = time.monotonic()
    result = asyncio.run(
        persist(work, tries, 0.01, lambda e: isinstance(e, OSError), lambda e: asked_s)
    )
    assert result == "done"
    return calls, time.monotonic() - began


def test_it_comes_again_until_it_is_done() -> None:
    calls, seconds = attempt(failures=3, tries=4)
    assert calls == 4 and seconds >= 0.05, "0.01, 0.02 and 0.04 s, less a quarter at most"


def test_the_last_failure_is_raised_as_it_is() -> None:
    with pytest.raises(OSError, match="failure 3"):
        attempt(failures=9, tries=3)
    with pytest.raises(OSError, match="failure 1"):
        attempt(failures=9, tries=1)


def test_what_does_not_pass_is_raised_at_once() -> None:
    async def work() -> None:
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        asyncio.run(persist(work, 9, 60.0, lambda e: isinstance(e, OSError), lambda e: None))


def test_waits_double_up_to_a_limit() -> None:
    for number, middle in ((1, 0.5), (2, 1.0), (5, 8.0), (30, 30.0)):
        found = [wait_s(number, 0.5) for _ in range(50)]
        assert all(0.75 * middle <= one <= 1.25 * middle for one in found)
        assert len(set(found)) > 1, "runs do not come back together"


def test_a_server_may_say_how_long() -> None:
    assert wait_s(1, 0.5, asked_s=7.0) == 7.0 and wait_s(1, 0.5, asked_s=-1.0) == 0.0
    assert wait_s(1, 0.5, asked_s=86400.0) == LONGEST_ASKED_WAIT_S
    _, seconds = attempt(failures=1, tries=2, asked_s=0.2)
    assert seconds >= 0.2
