"""Cores that a process may use."""

from __future__ import annotations

import os

import pytest

from astra_chat.tools.system.cores import THREADS, cores


@pytest.mark.parametrize(
    ("said", "found"), [("1", 1), ("0", 1), ("100000", None), ("", None), ("2,1", None)]
)
def test_where_others_share_the_machine_there_are_fewer(
    monkeypatch: pytest.MonkeyPatch, said: str, found: int | None
) -> None:
    monkeypatch.setenv(THREADS, said)
    assert cores() == (found or len(os.sched_getaffinity(0)))
