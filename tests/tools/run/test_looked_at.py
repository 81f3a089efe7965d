"""Runs that several threads look at."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from astra_chat.tools.run.case_run import SMALL_BYTES, CaseRun, looked_at
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case, TimedOut

TASK = find_task("silu_and_mul")
COUNT = 40
LATE = TimedOut(step="check", limit_s=1.0)


def run_of(folder: Path, number: int) -> CaseRun:
    """Every third is small, and is looked at at once."""
    tokens = 1 if number % 3 == 0 else 4096
    case = Case(dims={"tokens": tokens, "d": 64}, dtype="float16", seed=number)
    assert (TASK.least_bytes(case) < SMALL_BYTES) == (tokens == 1)
    place = folder / f"{number}"
    place.mkdir()
    return CaseRun(OracleCase(case, folder, folder), place, CaseReport(), 0)


def runs_in(
    folder: Path, made: list[CaseRun], *, failing_at: int = COUNT
) -> Generator[CaseRun | Failure]:
    for number in range(failing_at):
        made.append(run_of(folder, number))
        yield made[-1]
    if failing_at < COUNT:
        yield LATE


def seed_of(run: CaseRun) -> int:
    assert run.folder.is_dir(), "its files are there while it is looked at"
    return run.oracle_case.case.seed


def until_gone(made: list[CaseRun]) -> None:
    gone = threading.Event()
    while any(run.folder.exists() for run in made):
        assert not gone.wait(0.01)


def test_they_come_in_their_order_and_are_gone_afterwards(tmp_path: Path) -> None:
    made = list[CaseRun]()
    found = [(run, seed) for run, seed in looked_at(TASK, runs_in(tmp_path, made), seed_of)]
    assert found == [(run, number) for number, run in enumerate(made)] and len(made) == COUNT
    until_gone(made)


@pytest.mark.parametrize("at", [0, 1, 7])
def test_a_failure_comes_after_what_was_before_it(tmp_path: Path, at: int) -> None:
    found = [*looked_at(TASK, runs_in(tmp_path, [], failing_at=at), seed_of)]
    assert [seed for _, seed in found] == [*range(at), None] and found[-1][0] == LATE


def test_whoever_stops_early_leaves_no_files(tmp_path: Path) -> None:
    made = list[CaseRun]()
    runs = looked_at(TASK, runs_in(tmp_path, made), seed_of)
    assert [next(runs)[1] for _ in range(3)] == [0, 1, 2]
    runs.close()
    assert len(made) < COUNT
    until_gone(made)


def test_what_goes_wrong_is_raised_in_its_turn(tmp_path: Path) -> None:
    def fails(run: CaseRun) -> int:
        if run.oracle_case.case.seed in (4, 5):
            raise ValueError(f"at {run.oracle_case.case.seed}")
        return seed_of(run)

    made, seen = list[CaseRun](), list[int | None]()
    with pytest.raises(ValueError, match="at 4"):
        seen.extend(seed for _, seed in looked_at(TASK, runs_in(tmp_path, made), fails))
    until_gone(made)
