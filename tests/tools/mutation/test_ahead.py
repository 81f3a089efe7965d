"""Scores that set-up makes: a run finds them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from astra_chat.tools.mutation import ahead
from astra_chat.tools.mutation.mutant_runs import Scorer
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.tiers import baseline_source
from tests.chat_samples import task, task_folder

__all__ = ["task", "task_folder"]


@pytest.mark.second_tier
def test_a_run_finds_what_was_scored_ahead(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("astra_chat.tools.mutation.mutant_runs.cache_folder", lambda kind: tmp_path)
    monkeypatch.setattr(sys, "argv", ["ahead", str(task.folder)])
    assert ahead.main() == 0
    monkeypatch.setattr(Scorer, "_own", lambda _: pytest.fail("they are scored again"))
    oracle = Oracle(task)
    try:
        source = baseline_source(task, "sglang")
        scores = Scorer(task, oracle, source, Stop()).score(task.check[:1])
    finally:
        oracle.close()
    assert scores.own and set(scores.cases[0].kills) <= set(scores.mutants)


def test_a_task_that_is_not_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ahead", "silu_and_mull"])
    assert ahead.main() == 2
    assert capsys.readouterr().err.count("\n") == 1
