"""Candidates judged again: which, what counts as the same, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from astra_chat.cli.main import app
from astra_chat.models.open_models import open_models
from astra_chat.replay import rejudge as module
from astra_chat.replay.rejudge import recorded, rejudge, require_hashes
from astra_chat.session.session import run_request
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import sha256_of
from astra_chat.transcript.reader import read
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import KERNELS, WRONG_OUTCOME, FixedJudge, evaluation


@pytest.fixture
def path(task: Task, tmp_path: Path) -> Path:
    models = open_models("scripted", task)
    request = chat_request(task, tmp_path / "whole", models=models)
    return run_request(request, judge=FixedJudge()).transcript


def test_every_candidate_is_judged_again_failed_builds_too(path: Path) -> None:
    kinds = [one.outcome.kind for one in recorded(read(path))]
    assert kinds.count("build_failed") == 1
    assert kinds.count("wrong") == 1
    assert kinds.count("timed") >= 3
    tested = recorded(read(path))[-1].cases
    assert [case.dims["rows"] for case in tested][:1] == [7], "the tester's case is judged by, too"


Lines = list[dict[str, Any]]


def judged(lines: Lines) -> Iterator[dict[str, Any]]:
    """The evaluations of a transcript."""
    for event in (line["event"] for line in lines):
        if event["kind"] == "judged":
            yield event["evaluation"]


def filled_in(path: Path) -> Lines:
    """The transcript with what the real judge says in the place of what a fixed one did."""
    found = rejudge(read(path), "virtual", trust=True)
    assert {(one.then.kind, one.now.kind) for one in found} == {
        ("build_failed", "build_failed"),
        ("wrong", "wrong"),
        ("timed", "timed"),
    }
    real = {(one.candidate, one.confirms): one for one in found}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for told in judged(lines):
        one = real[told["candidate"], told["confirms"]]
        told["outcome"] = one.now.model_dump(mode="json")
        told["device"] = one.now_device.model_dump(mode="json")
    return lines


def four_times_as_fast(lines: Lines, candidate: str) -> None:
    """The verdict stays what it is."""
    for outcome in (e["outcome"] for e in judged(lines) if e["candidate"] == candidate):
        outcome["ratio"] *= 4
        for case in outcome["cases"]:
            case["median_us"] /= 4
            for name in ("ratio", "ratio_low", "ratio_high"):
                case[name] *= 4


def exchanged(text: str, source: str, other: str) -> str:
    """Another source in its place, and its hash with it: nobody ever judged that."""
    text = text.replace(json.dumps(source), json.dumps(other))
    text = text.replace(sha256_of(source), sha256_of(other))
    return text.replace(sha256_of(source)[:12], sha256_of(other)[:12])


@pytest.mark.in_full
@pytest.mark.second_tier
def test_forged_times_and_a_forged_winner_are_exposed(path: Path) -> None:
    """All else agrees, and the file is left as it is."""
    quick, winner = KERNELS["scalar.cu"], KERNELS["vector.cu"]
    wrong = winner.replace("2.0f * v.x", "2.5f * v.x")
    lines = filled_in(path)
    four_times_as_fast(lines, sha256_of(quick)[:12])
    text = "".join(json.dumps(line) + "\n" for line in lines)
    path.write_text(exchanged(text, winner, wrong))
    require_hashes(read(path))
    before = path.read_bytes()
    asked = ["replay", str(path), "--rejudge", "--device", "virtual", "--trust", "--json"]
    done = CliRunner().invoke(app, asked)
    found = {one["candidate"]: one for one in json.loads(done.stdout)["rejudged"]}
    differing = {name for name, one in found.items() if not one["agrees"]}
    assert done.exit_code == 1 and len(found) > 3
    assert differing == {sha256_of(quick)[:12], sha256_of(wrong)[:12]}
    assert found[sha256_of(quick)[:12]]["now"]["kind"] == "timed"
    assert found[sha256_of(wrong)[:12]]["now"]["kind"] == "wrong"
    assert path.read_bytes() == before


def test_a_changed_source_is_refused(path: Path) -> None:
    text = path.read_text()
    assert "2.0f * v.x" in text
    path.write_text(text.replace("2.0f * v.x", "3.0f * v.x"))
    with pytest.raises(BadInput, match="its hash does not match"):
        require_hashes(read(path))
    with pytest.raises(BadInput, match="its hash does not match"):
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

    monkeypatch.setattr(module, "judge_of", Other)
    done = CliRunner().invoke(app, ["replay", str(path), "--rejudge", "--device", "virtual"])
    assert done.exit_code == 1
    assert "DIFFERS" in done.stdout and " differ" in done.stdout
