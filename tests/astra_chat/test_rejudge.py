"""Candidates judged anew: which, what counts as the same, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from astra_chat import rejudge as module
from astra_chat.cli import app
from astra_chat.models import open_models
from astra_chat.rejudge import recorded, rejudge, require_hashes
from astra_chat.request import Request
from astra_chat.session import Session
from astra_chat.tools.errors import BadInput
from astra_chat.tools.tasks import Task
from astra_chat.tools.types import Evaluation
from astra_chat.transcript.reader import read
from tests.chat_samples import DEVICE, WRONG_OUTCOME, FixedJudge, evaluation


@pytest.fixture
def path(task: Task, tmp_path: Path) -> Path:
    models = open_models("scripted", task)
    request = Request(task=task, device=DEVICE, models=models, folder=tmp_path / "whole")
    return Session(request, judge=FixedJudge()).run().transcript


def test_every_candidate_is_judged_again_failed_builds_too(path: Path) -> None:
    kinds = [one.outcome.kind for one in recorded(read(path))]
    assert kinds.count("build_failed") == 1
    assert kinds.count("wrong") == 1
    assert kinds.count("timed") >= 3
    tested = recorded(read(path))[-1].cases
    assert [case.dims["rows"] for case in tested][:1] == [7], "the tester's case is judged by, too"


def test_the_real_judge_and_what_it_says(path: Path) -> None:
    """The recorded findings were made up by a fixed judge; the real one finds out where."""
    before = path.read_bytes()
    done = CliRunner().invoke(app, ["replay", str(path), "--rejudge", "--device", "virtual",
                                    "--trust", "--json"])  # fmt: skip
    found = json.loads(done.stdout)["rejudged"]
    kinds = {one["then"]["kind"]: one["now"]["kind"] for one in found}
    assert kinds == {"build_failed": "build_failed", "wrong": "wrong", "timed": "timed"}
    assert done.exit_code == (0 if all(one["agrees"] for one in found) else 1)
    assert path.read_bytes() == before


def test_a_changed_source_is_refused(path: Path) -> None:
    text = path.read_text()
    assert "2.0f * v.x" in text
    path.write_text(text.replace("2.0f * v.x", "3.0f * v.x"))
    with pytest.raises(BadInput, match="its hash is off"):
        require_hashes(read(path))
    with pytest.raises(BadInput, match="its hash is off"):
        rejudge(read(path), "virtual")


def test_a_verdict_that_differs_is_an_exit_code_and_words(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other:
        """Nothing is right any more."""

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def __enter__(self) -> Other:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def evaluate(self, source: str, *_: object, **__: object) -> Evaluation:
            return evaluation(source, WRONG_OUTCOME)

    monkeypatch.setattr(module, "Judge", Other)
    done = CliRunner().invoke(app, ["replay", str(path), "--rejudge", "--device", "virtual"])
    assert done.exit_code == 1
    assert "DIFFERS" in done.stdout and "verdicts differ" in done.stdout
