"""Real mutants on the virtual GPU: who is killed by which case, and what stays on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from astra_chat.tools.judge import Judge
from astra_chat.tools.mutation.mutant_runs import Scorer
from astra_chat.tools.mutation.mutants import Mutant
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, TimedOut
from tests.chat_samples import DEVICE, SCALAR, task, task_folder

__all__ = ["task", "task_folder"]

EMPTY_ROW = Case(dims={"rows": 1, "d": 4}, dtype="float32")
MANY = Case(dims={"rows": 130, "d": 20}, dtype="float32")
TOO_LARGE = Case(dims={"rows": 4096, "d": 4096}, dtype="float32")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read that another version of the operators left."""
    monkeypatch.setattr("astra_chat.tools.mutation.mutant_runs.cache_folder", lambda kind: tmp_path)


@pytest.mark.in_full
@pytest.mark.second_tier
def test_mutants_that_the_task_lets_live_are_killed_by_a_telling_case(task: Task) -> None:
    """The task's own cases fit into one round of its 256 threads: a wrong step is not seen."""
    weak = task.model_copy(update={"check": (EMPTY_ROW,)})
    with Judge(weak, DEVICE) as judge:
        scores = judge.score([MANY, EMPTY_ROW, TOO_LARGE], 16)
        again = judge.score([MANY, EMPTY_ROW, TOO_LARGE], 16)
    assert scores == again
    assert len(scores.mutants) >= 8 and scores.own and scores.lived
    many, empty, large = scores.cases
    assert set(empty.kills) == set(scores.own), "the same case kills the same mutants"
    assert set(many.kills) > set(empty.kills) or scores.new
    assert set(scores.new) <= set(many.kills) and scores.new
    assert "too large" in large.unjudged and large.kept


@pytest.mark.in_full
@pytest.mark.second_tier
def test_what_hangs_or_faults_is_killed_and_the_same_program_lives(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {
        "hangs": ("    out[i] =", "    while (true) out[i] ="),
        "tail": ("i < total;", "i + 1 < total;"),
        "outside": ("= 2.0f * in[i]", "= 2.0f * in[i + 100000]"),
        "same": ("2.0f * in[i]", "in[i] * 2.0f"),
    }
    made = [Mutant(name, 1, "", "", SCALAR.replace(*c)) for name, c in changes.items()]
    assert all(mutant.source != SCALAR for mutant in made)
    monkeypatch.setattr("astra_chat.tools.mutation.mutant_runs.mutants", lambda *_: made)
    hung, run = [], Runner.run_calls

    def counted(self: Runner, *args: Any, **options: Any) -> Iterator[CaseRun | Failure]:
        for found in run(self, *args, **options):
            hung.append(isinstance(found, TimedOut))
            yield found

    monkeypatch.setattr(Runner, "run_calls", counted)
    oracle = Oracle(task)
    try:
        suite = Scorer(task, oracle, SCALAR, Stop(), 4).suite()
    finally:
        oracle.close()
    assert sum(hung) == 1, "what did not end once is not called again"
    assert suite.own == tuple(mutant.name for mutant in made[:3])
    assert suite.survivors == (made[3].name,)


@pytest.mark.second_tier
def test_bugs_that_change_no_result_are_left_out(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One writes the same bytes everywhere; one is wrong where the weak suite does not look; one is
    inside the tolerance, which a further case might not be."""
    changes = {
        "same": ("2.0f * in[i]", "in[i] * 2.0f"),
        "large": ("2.0f * in[i]", "(rows > 3 ? 3.0f : 2.0f) * in[i]"),
        "inexact": ("2.0f * in[i]", "2.0000001f * 0.99999999f * in[i] * 1.0000001f"),
    }
    source = SCALAR.replace("int64_t total)", "int64_t total, int64_t rows)")
    source = source.replace("rows * d)", "rows * d, rows)")
    made = [Mutant(name, 1, "", "", source.replace(*c)) for name, c in changes.items()]
    assert all(mutant.source != source for mutant in made)
    monkeypatch.setattr("astra_chat.tools.mutation.mutant_runs.mutants", lambda *_: made)
    weak, oracle = task.model_copy(update={"check": (EMPTY_ROW,)}), Oracle(task)
    try:
        scores = Scorer(weak, oracle, source, Stop(), 3).score([EMPTY_ROW])
    finally:
        oracle.close()
    same, large, inexact = (mutant.name for mutant in made)
    assert scores.harmless == (same,) and scores.survivors == (large, inexact)


@pytest.mark.in_full
@pytest.mark.second_tier
def test_a_case_that_the_source_itself_fails_is_kept_and_kills_nothing(task: Task) -> None:
    source = SCALAR.replace("2.0f * in[i]", "(total > 100 ? 3.0f : 2.0f) * in[i]")
    oracle = Oracle(task)
    try:
        small, large = Scorer(task, oracle, source, Stop(), 4).score([EMPTY_ROW, MANY]).cases
    finally:
        oracle.close()
    assert not small.unjudged
    assert large.unjudged == "the source itself fails on it" and large.kept and not large.kills


@pytest.mark.in_full
@pytest.mark.second_tier
def test_bugs_in_code_that_no_legal_case_reaches_are_left_out(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = "  if (rows > 4096) { rows = 4096; }\n  kernel<<<4"
    source = SCALAR.replace("  kernel<<<4", guarded)
    changes = {
        "unreached": ("rows = 4096", "rows = 4095"),
        "same": ("2.0f * in", "in[i] * 2.0f; // "),
    }
    made = [Mutant(name, 1, "", "", source.replace(*c)) for name, c in changes.items()]
    monkeypatch.setattr("astra_chat.tools.mutation.mutant_runs.mutants", lambda *_: made)
    oracle = Oracle(task)
    try:
        suite = Scorer(task, oracle, source, Stop(), 4).suite()
    finally:
        oracle.close()
    assert suite.unreached == (made[0].name,) and suite.survivors == (made[1].name,)
    assert f"left out because no valid case reaches it: {made[0].name}" in suite.lines()[-1]
