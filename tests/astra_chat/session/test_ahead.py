"""What set-up does ahead of a repeated run: that run finds it."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from astra_chat.agents.turns import Turn
from astra_chat.session import ahead
from astra_chat.tools.judge import Judge
from astra_chat.tools.mutation.mutant_runs import Scorer
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.types import Case
from astra_chat.transcript.options import RunOptions
from tests.chat_samples import CASE, baseline_turns, scored, task, task_folder, write_transcript

__all__ = ["task", "task_folder"]
MUTANTS = 4


@pytest.mark.second_tier
def test_a_repeated_run_finds_its_scores(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorded number of seeded bugs is another than the default."""
    assert RunOptions().mutants != MUTANTS
    user, tester, evaluated = baseline_turns()
    asked = scored(CASE).model_copy(update={"asked": MUTANTS})
    turns = [user, tester, Turn("executor", asked), evaluated]
    path = write_transcript(tmp_path / "transcript.jsonl", turns)
    (task.folder / "transcript.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    monkeypatch.setattr("astra_chat.tools.mutation.mutant_runs.cache_folder", lambda kind: tmp_path)
    monkeypatch.setattr(sys, "argv", ["ahead", str(task.folder)])
    assert ahead.main() == 0
    monkeypatch.setattr(Scorer, "_score", lambda *_: pytest.fail("they are scored again"))
    with Judge(task, pick_device("virtual")) as judge:
        found = judge.score([CASE], MUTANTS)
    assert found.asked == MUTANTS and found.own
    assert set(found.cases[0].kills) <= set(found.mutants)


def test_the_demo_s_scores_are_those_that_its_run_asks_for() -> None:
    """What `make setup` scores, and what `make demo` asks for."""
    demo = find_task("silu_and_mul")
    options = ahead.by_default(demo, RunOptions())
    (scores,) = ahead.recorded_scores(demo)
    assert options.models == "transcript" and scores.asked == options.mutants
    assert scores.cases and all(isinstance(one.case, Case) for one in scores.cases)


def test_a_task_that_is_not_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ahead", "silu_and_mull"])
    assert ahead.main() == 2
    assert capsys.readouterr().err.count("\n") == 1
