"""Recorded runs held again: the same words, and a judge that may find something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from astra_chat.cli.main import app
from astra_chat.replay.rerun import compared, rerun
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import candidate_id
from astra_chat.transcript.events import ChatMessage, Deviation
from astra_chat.transcript.reader import Transcript, read
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import KERNELS, SCRIPT, VECTOR, FixedJudge, run_options, story, timed

DECISIONS = """
[[decision]]
answer = "approve"
[[decision]]
answer = "approve"
[[decision]]
answer = "approve"
[[decision]]
answer = "reject"
reason = "not this one"
"""


def no_winner() -> FixedJudge:
    """Nothing is exported then, which would take a compiler seconds."""
    return FixedJudge({VECTOR: timed(1.0, "tie")})


def recorded(task: Task, out: Path, approver: str | None = None, kind: str = "best") -> Transcript:
    judge = no_winner() if approver is None else FixedJudge()
    request = chat_request(task, out, approver=approver, options=run_options(strategy=kind))
    return read(run_request(request, judge=judge).transcript)


@pytest.mark.parametrize("kind", ["best", "single"])
def test_with_the_same_findings_it_is_the_same_chat(task: Task, tmp_path: Path, kind: str) -> None:
    first = recorded(task, tmp_path / "first", kind=kind)
    again = rerun(first, out=tmp_path / "again", judge=no_winner())
    left_script = [line for line in story(first.path) if '"kind": "deviation"' in line]
    assert len(left_script) == 1, "the script expected a winner; the recorded run did not find one"
    assert story(again.transcript) == [s for s in story(first.path) if s not in left_script]
    both, missing = compared(first, again.transcript)
    assert missing == [] and len(both) >= 3 and all(one.agrees for one in both)
    assert read(again.transcript).options.models == f"transcript:{first.path}"
    assert not [r for r in read(again.transcript).records if isinstance(r.event, Deviation)]


def test_what_was_judged_elsewhere_is_judged_here(task: Task, tmp_path: Path) -> None:
    first = recorded(task, tmp_path / "first")
    text = first.path.read_text().replace('"judge":"local"', '"judge":"detached"')
    first.path.write_text(text)
    assert read(first.path).options.judge == "detached"
    again = rerun(read(first.path), "virtual", out=tmp_path / "again", judge=no_winner())
    assert again.summary.options.judge == "local"


def test_a_human_decides_as_before(task: Task, tmp_path: Path) -> None:
    (tmp_path / "d.toml").write_text(DECISIONS)
    first = recorded(task, tmp_path / "first", str(tmp_path / "d.toml"))
    again = rerun(first, out=tmp_path / "again", judge=FixedJudge())
    assert story(again.transcript) == story(first.path)
    assert again.summary.best is None and "not this one" in again.transcript.read_text()


def test_where_the_judge_finds_something_else_the_chat_goes_its_own_way(
    task: Task, tmp_path: Path
) -> None:
    first = recorded(task, tmp_path / "first")
    other = FixedJudge({VECTOR: timed(0.9, "slower"), KERNELS["wrong.cu"]: timed(1.0, "tie")})
    again = rerun(first, out=tmp_path / "again", judge=other)
    both, missing = compared(first, again.transcript)
    differ = {one.candidate for one in both if not one.agrees}
    assert differ == {candidate_id(VECTOR), candidate_id(KERNELS["wrong.cu"])}
    assert candidate_id(KERNELS["scalar.cu"]) in missing, "nothing was left to be repaired"
    records = read(again.transcript).records
    deviations = [r.event for r in records if isinstance(r.event, Deviation)]
    assert {one.candidate for one in deviations} == differ
    assert again.summary.best is None and again.summary.ended is not None


def test_a_place_where_nothing_was_said_is_passed(task: Task, tmp_path: Path) -> None:
    first = recorded(task, tmp_path / "first")
    wrong = FixedJudge().outcomes[KERNELS["wrong.cu"]]
    again = rerun(first, out=tmp_path / "again", judge=FixedJudge({VECTOR: wrong}))
    said = [r.event for r in read(again.transcript).records if isinstance(r.event, ChatMessage)]
    words = [one.payload.words for one in said if one.payload.kind == "pass"]
    assert "this turn does not exist in the recorded run" in words


def test_a_changed_source_is_refused(task: Task, tmp_path: Path) -> None:
    path = recorded(task, tmp_path / "first").path
    path.write_text(path.read_text().replace("2.0f * v.x", "3.0f * v.x"))
    with pytest.raises(BadInput, match="its hash does not match"):
        rerun(read(path), out=tmp_path / "again", judge=FixedJudge())
    assert not (tmp_path / "again").exists()


@pytest.mark.second_tier
def test_the_command_and_the_real_judge(task: Task, tmp_path: Path) -> None:
    """The recorded findings were made up by a fixed judge; the real one finds out where."""
    rounds = SCRIPT.split("[[round]]")
    script = task.folder / "script" / "script.toml"
    script.write_text("[[round]]".join([rounds[0], rounds[1].partition("[[round.fixer]]")[0]]))
    first = recorded(load_task(task.folder), tmp_path / "first")
    before = first.path.read_bytes()
    words = ["replay", str(first.path), "--rerun", "--device", "virtual", "--trust", "--json"]
    done = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "again")])
    document = json.loads(done.stdout)
    assert document["schema"] == "astra-chat/rerun/1"
    assert document["transcript"] == str(tmp_path / "again" / "transcript.jsonl")
    kinds = [(one["then"]["kind"], one["now"]["kind"]) for one in document["rejudged"]]
    assert sorted(kinds) == [("build_failed", "build_failed"), ("timed", "timed")]
    assert document["rejudged"][0]["now_device"]["kind"] == "virtual"
    agrees = not document["not_reached"] and all(one["agrees"] for one in document["rejudged"])
    assert done.exit_code == (0 if agrees else 1)
    assert first.path.read_bytes() == before
