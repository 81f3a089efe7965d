"""The judge of a run: here or by jobs, and what has to be there before a run begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.detached.jobs import CLOSED
from astra_chat.models.open_models import open_models
from astra_chat.session.judges import judge_for
from astra_chat.session.resume import request_on, resumed
from astra_chat.session.run_events import Silent
from astra_chat.session.session import run_request
from astra_chat.session.signals import ChatLoop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Device
from astra_chat.transcript.options import RunOptions
from astra_vgpu.ground.errors import MissingDependency
from tests.astra_chat.run_samples import chat_request
from tests.astra_chat.test_kill import NO_WINNER
from tests.chat_samples import FixedJudge, run_options


def test_a_run_on_a_gpu_that_could_confirm_no_winner_does_not_begin(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Path:
        raise MissingDependency(f"no {name} on this machine")

    monkeypatch.setattr("astra_chat.session.judges.find_tool", missing)
    gpu = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")
    models = open_models("scripted", task)
    request = chat_request(task, tmp_path / "out", device=gpu, models=models)
    with pytest.raises(MissingDependency, match="no compute-sanitizer"):
        run_request(request)
    assert not (tmp_path / "out").exists()


def test_the_judge_can_be_switched_on_resume(task: Task, tmp_path: Path) -> None:
    request = chat_request(task, tmp_path, options=run_options(judge="detached"))
    job = run_request(request).job
    assert job is not None
    past = resumed(tmp_path)
    request = request_on(past, task, RunOptions.given(judge="local"))
    with judge_for(request, Silent(), ChatLoop(None), past.turns):
        assert (job / CLOSED).exists(), "no worker judges it in vain"
    result = run_request(request, judge=FixedJudge(NO_WINNER), past=past)
    assert result.job is None and result.summary.options.judge == "local"
