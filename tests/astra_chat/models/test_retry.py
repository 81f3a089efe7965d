"""Trying again."""

from __future__ import annotations

import asyncio

import pytest

from astra_chat.models import openai_client
from astra_chat.models.openai_client import LONGEST_ASKED_WAIT_S, persist, wait_s


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were waited, without waiting."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(openai_client.asyncio, "sleep", sleep)
    return waited


def attempt(failures: int, tries: int, asked_s: float | None = None) -> int:
    """How often something was tried that fails so often."""
    calls = 0

    async def work() -> str:
        nonlocal calls
        calls += 1
        if calls <= failures:
            raise OSError(f"failure {calls}")
        return "done"

    result = asyncio.run(
        persist(work, tries, 0.01, lambda e: isinstance(e, OSError), lambda e: asked_s)
    )
    assert result == "done"
    return calls


def test_it_comes_again_until_it_is_done(pauses: list[float]) -> None:
    assert attempt(failures=3, tries=4) == 4
    assert [
        0.75 <= pause / middle <= 1.25
        for pause, middle in zip(pauses, (0.01, 0.02, 0.04), strict=True)
    ] == [True] * 3


def test_the_last_failure_is_raised_as_it_is(pauses: list[float]) -> None:
    with pytest.raises(OSError, match="failure 3"):
        attempt(failures=9, tries=3)
    with pytest.raises(OSError, match="failure 1"):
        attempt(failures=9, tries=1)
    assert len(pauses) == 2


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


def test_a_server_may_say_how_long(pauses: list[float]) -> None:
    assert wait_s(1, 0.5, asked_s=7.0) == 7.0 and wait_s(1, 0.5, asked_s=-1.0) == 0.0
    assert wait_s(1, 0.5, asked_s=86400.0) == LONGEST_ASKED_WAIT_S
    attempt(failures=1, tries=2, asked_s=0.2)
    assert pauses == [0.2]
