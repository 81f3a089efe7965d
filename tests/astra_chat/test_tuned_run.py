"""A run whose coder marks constants: recorded, resumed anywhere, played back, and with the real
judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.agents.turns import Kernel
from astra_chat.models.open_models import open_models
from astra_chat.replay.rerun import compared, rerun
from astra_chat.session.request import Request
from astra_chat.session.resume import request_on, resumed
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.tuning.tuned import TriedPoint, Tuning
from astra_chat.tools.types import candidate_id
from astra_chat.transcript.events import Deviation, Proposed
from astra_chat.transcript.ledger import ledger
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import turns_of
from astra_chat.verify.verify import verify
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import VECTOR, FixedJudge, run_options, story, timed

MARKED = VECTOR.replace(
    "__global__", "constexpr int kThreads = 128;  // tune: 32 2048\n__global__", 1
).replace("(vectors + 127) / 128), 128,", "(vectors + kThreads - 1) / kThreads), kThreads,")
TUNED = MARKED.replace("kThreads = 128;  // tune: 32 2048", "kThreads = 32;  // tune: 128 2048")


class TunesToo(FixedJudge):
    """Whose tuning finds 32 threads best."""

    def __init__(self) -> None:
        super().__init__({MARKED: timed(1.9), TUNED: timed(2.1)})

    def tune(self, source: str, points: int, measured: int) -> Tuning:
        assert (source, points) == (MARKED, 8)
        return Tuning(
            candidate=candidate_id(source),
            combinations=3,
            points=(
                TriedPoint(values={"kThreads": 32}, estimated_ratio=2.1),
                TriedPoint(values={"kThreads": 128}, estimated_ratio=1.9),
                TriedPoint(values={"kThreads": 2048}, estimated_ratio=None, failed="crashed"),
            ),
            start={"kThreads": 128},
            best={"kThreads": 32},
            seconds=2.0,
        )


@pytest.fixture
def marked_task(task_folder: Path) -> Task:
    """Whose script's last kernel leaves its block size open."""
    (task_folder / "script" / "vector.cu").write_text(MARKED)
    return load_task(task_folder)


def request(task: Task, out: Path, models: str = "scripted", **options: int) -> Request:
    return chat_request(task, out, models=open_models(models, task), options=run_options(**options))


def test_a_tuned_run_is_recorded_and_resumed_anywhere(marked_task: Task, tmp_path: Path) -> None:
    whole = run_request(request(marked_task, tmp_path / "whole", tune=8), judge=TunesToo())
    found = read(whole.transcript)
    kinds = [(turn.speaker, turn.kind) for turn in turns_of(found.records)]
    at = kinds.index(("executor", "tuning"))
    assert kinds[at - 1 : at + 5] == [
        ("executor", "evaluation"),
        ("executor", "tuning"),
        ("executor", "kernel"),
        ("executor", "build"),
        ("executor", "evaluation"),
        ("profiler", "analysis"),
    ]
    assert whole.summary.best is not None
    assert whole.summary.best.candidate == candidate_id(TUNED)
    assert (tmp_path / "whole" / "best.cu").read_text() == TUNED
    assert not [r for r in found.records if isinstance(r.event, Deviation)]
    spent = ledger(found.records).tuning
    assert spent is not None and (spent.candidates, spent.points, spent.changed) == (1, 3, 1)
    for turns in (at, at + 1, at + 2):  # before it, after it, and with its kernel proposed
        out = tmp_path / f"cut-{turns}"
        out.mkdir()
        lines = whole.transcript.read_text().splitlines(keepends=True)
        kept = [line for line, one in zip(lines, found.records, strict=True) if one.turn <= turns]
        (out / "transcript.jsonl").write_text("".join(kept))
        past = resumed(out / "transcript.jsonl")
        again = run_request(
            request_on(past, marked_task, RunOptions.given(tune=8)), judge=TunesToo(), past=past
        )
        assert story(again.transcript) == story(whole.transcript)


class NoJudge(FixedJudge):
    """There is none here."""

    def tune(self, source: str, points: int, measured: int) -> Tuning:
        raise AssertionError("the judge was asked")


def test_a_recorded_tuning_is_played_back(marked_task: Task, tmp_path: Path) -> None:
    models = f"{{}}:{tmp_path / 'tape.jsonl'}:scripted"
    live = request(marked_task, tmp_path / "live", models.format("record"), tune=8)
    played = models.format("replay").removesuffix(":scripted")
    told = story(run_request(live, judge=TunesToo()).transcript)
    again = request(marked_task, tmp_path / "again", played, tune=8)
    assert story(run_request(again, judge=NoJudge()).transcript) == told


def test_without_the_option_a_marked_kernel_is_one_like_any_other(
    marked_task: Task, tmp_path: Path
) -> None:
    result = run_request(request(marked_task, tmp_path / "out"), judge=TunesToo())
    text = result.transcript.read_text()
    assert '"tuning"' not in text and '"tune"' not in text, "nor does its transcript say more"


def test_a_budget_counts_what_a_gpu_measures(marked_task: Task, tmp_path: Path) -> None:
    """Four evaluations come before: baseline, wrong, scalar, the marked kernel. Tuning needs more
    than the one that is kept for the confirmation."""
    asked = request(marked_task, tmp_path / "out", tune=8)
    options = asked.options.model_copy(update={"budget": "evaluations=4"})
    limited = chat_request(asked.task, asked.folder, models=asked.models, options=options)
    result = run_request(limited, judge=TunesToo())
    assert result.summary.ended is not None and result.summary.ended.reason == "evaluations"
    assert all(turn.kind != "tuning" for turn in turns_of(read(result.transcript).records))


@pytest.mark.in_full
def test_the_real_judge_tunes_and_a_rerun_finds_the_same(marked_task: Task, tmp_path: Path) -> None:
    options = {"tune": 8, "confirmations": 0}
    first = run_request(request(marked_task, tmp_path / "first", **options))
    records = read(first.transcript).records
    tunings = [t.payload for t in turns_of(records) if isinstance(t.payload, Tuning)]
    assert len(tunings) == 1 and tunings[0].start == {"kThreads": 128}
    by_values = {point.values["kThreads"]: point for point in tunings[0].points}
    assert set(by_values) == {32, 128, 2048} and by_values[2048].failed
    assert by_values[32].estimated_ratio and by_values[128].estimated_ratio
    own = [r.event for r in records if isinstance(r.event, Proposed)]
    assert [one.speaker for one in own].count("executor") == tunings[0].changed
    kernels = [t.payload for t in turns_of(records) if isinstance(t.payload, Kernel)]
    assert MARKED in [kernel.source for kernel in kernels]
    checked = verify(read(first.transcript))
    assert checked.stands, [claim for claim in checked.claims if claim.status == "fails"]
    again = rerun(read(first.transcript), device="virtual", out=tmp_path / "again", trust=True)
    both, missing = compared(read(first.transcript), again.transcript)
    assert not missing and all(one.agrees for one in both)
