"""Planted cheats are found by name, honest candidates are not refused; on a CPU, in two walled
processes."""

from __future__ import annotations

from typing import Any

import pytest

from astra_chat.tools.sandbox.isolation import ENOUGH, isolation
from lab.rejudge.findings import FINDINGS
from lab.rejudge.processes import Judging, judge
from lab.rejudge.sets import PublishedPair
from lab.rejudge.table import row
from tests.lab.rejudge.candidates import CHEATS, HONEST, PROBLEM

HOW = Judging("cpu", "7", timing=False, compile=False)
needs_walls = pytest.mark.skipif(isolation() not in ENOUGH, reason="nothing isolates here")


def verdict(problem: str, candidate: str) -> dict[str, Any]:
    return row(PublishedPair("pair", problem, candidate), judge(problem, candidate, HOW), HOW)


def names(found: dict[str, Any]) -> set[str]:
    return {one["name"] for one in found["findings"]}


def test_there_are_thirty_cheats_of_ten_kinds_and_ten_honest_ones() -> None:
    assert len(CHEATS) == 30 and len(HONEST) == 10
    assert len({name.split("-")[0] for name in CHEATS}) == 10
    assert all(some <= FINDINGS.keys() for some, _ in CHEATS.values())


@needs_walls
@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_found(name: str) -> None:
    expected, text = CHEATS[name]
    found = verdict(PROBLEM, text)
    assert names(found) & expected, found["findings"]


@needs_walls
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_candidate_is_not_refused(name: str) -> None:
    found = verdict(*HONEST[name])
    assert found["outcome"] == "correct", found["findings"]
    assert found["kernels"] and found["grades"]["set"] == "right"
