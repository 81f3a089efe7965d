"""Models that say what a recorded run's did, at the same place."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import pytest
from autogen_core.models import UserMessage

from astra_chat.agents.position import position_line
from astra_chat.agents.turns import (
    REPLY_TYPES,
    Kernel,
    NextSpeaker,
    Pass,
    Plan,
    Position,
    RoleName,
    Source,
)
from astra_chat.models.open_models import by_default, open_models
from astra_chat.models.spec import Role
from astra_chat.models.transcript_models import TranscriptModels
from astra_chat.session.recorded_options import REPEATED_POINTS, accepted
from astra_chat.session.request import SessionOptions, request_for
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import TRANSCRIPT, Task, find_task
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import read
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import KERNELS, VECTOR, FixedJudge, timed


@pytest.fixture
def path(task: Task, tmp_path: Path) -> Path:
    models = open_models("scripted", task)
    request = chat_request(task, tmp_path / "first", models=models)
    judge = FixedJudge({VECTOR: timed(1.0, "tie")})  # no winner: nothing is exported
    return run_request(request, judge=judge).transcript


def ask(models: TranscriptModels, role: Role, number: int, attempt: int = 1) -> str:
    prompt = UserMessage(
        content=position_line(Position(round=number, attempt=attempt)), source="user"
    )
    return str(asyncio.run(models.client(role).create([prompt])).content)


def reply(models: TranscriptModels, role: RoleName, number: int, attempt: int = 1) -> object:
    return REPLY_TYPES[role].model_validate_json(ask(models, role, number, attempt)).reply


def test_each_role_says_what_it_said_there(path: Path) -> None:
    models = TranscriptModels(path)
    second = reply(models, "planner", 2)
    assert isinstance(second, Plan) and second.title == "Vectors of four"
    repaired = reply(models, "fixer", 1, 2)
    assert isinstance(repaired, Source) and repaired.source == KERNELS["scalar.cu"]
    assert NextSpeaker.model_validate_json(ask(models, "selector", 1)).choose == "tester"


def test_elsewhere_it_passes(path: Path) -> None:
    models = TranscriptModels(path)
    assert isinstance(reply(models, "coder", 9), Pass)
    assert "this turn does not exist" in ask(models, "selector", 7)
    with pytest.raises(ValueError, match="does not state its position"):
        asyncio.run(models.client("coder").create([UserMessage(content="hi", source="user")]))


def test_it_foretells_what_was_found(path: Path) -> None:
    models, place = TranscriptModels(path), Position(round=1, attempt=1)
    assert models.expected(Kernel(words="", source=VECTOR), place) == "tie"
    assert models.expected(Kernel(words="", source=KERNELS["broken.cu"]), place) == "build_failed"
    assert models.expected(Kernel(words="", source="other"), place) is None


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("transcript", "has no transcript.jsonl.xz: give one as transcript:FILE"),
        ("transcript:none.jsonl", "cannot read"),
        ("transcript:{path},reasoning_effort=high", "takes no options"),
        ("transcript:a.jsonl,coder=transcript:b.jsonl", "takes one transcript"),
    ],
)
def test_what_cannot_be_opened(task: Task, path: Path, spec: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        open_models(spec.format(path=path), task)


def test_the_name_of_older_transcripts_is_an_alias(task: Task, path: Path) -> None:
    models = open_models(f"scripted,planner=spoken:{path}", task)
    assert models.described("planner") == f"transcript:{path}"


def test_beside_other_models(task: Task, path: Path) -> None:
    models = open_models(f"scripted,planner=transcript:{path}", task)
    assert models.described("planner").startswith("transcript:")
    assert models.described("coder") == "scripted"


def test_a_task_may_have_a_recorded_run_of_its_own(task: Task, path: Path, tmp_path: Path) -> None:
    asked = RunOptions()
    assert by_default(task, asked).models == "scripted"
    (task.folder / "transcript.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert by_default(task, asked) == asked.model_copy(update={"models": "transcript"})
    other = (RunOptions.given(strategy="beam:2"), RunOptions.given(tier="paper"))
    assert [by_default(task, one).models for one in other] == ["scripted", "scripted"]
    models = open_models("transcript", task)
    assert (models.name, models.typed) == ("transcript", "transcript")
    beside = open_models("transcript,coder=scripted", task)
    assert (beside.described("planner"), beside.described("coder")) == ("transcript", "scripted")


def test_that_of_a_shipped_task_brings_its_options(task: Task, path: Path) -> None:
    """But for those that are given; its budget not on a GPU."""
    shipped = find_task("topk_softmax")
    recorded = read(shipped.folder / TRANSCRIPT).options
    assert recorded.budget and recorded.tune == REPEATED_POINTS
    found = by_default(shipped, RunOptions.given(rounds=9))
    assert (found.models, found.rounds, found.budget) == ("transcript", 9, recorded.budget)
    for device, budget in (("virtual", recorded.budget), ("cuda", "")):
        session = SessionOptions(task="topk_softmax", device=device, gpu="h200")
        asked = request_for(RunOptions.given(judge="detached"), session)
        assert (asked.device.kind, asked.options.budget) == (device, budget)
    accepted(RunOptions(), SessionOptions(), found.model_copy(update={"rounds": 3}), path, [])
    assert (found.strategy, found.cases, found.tune) == (recorded.strategy, "bench", 16)
    with pytest.raises(BadInput, match="was made with --strategy single and --baseline sglang"):
        by_default(shipped, RunOptions.given(strategy="best"))
    copy = shipped.model_copy(update={"folder": task.folder})
    (task.folder / TRANSCRIPT).write_bytes((shipped.folder / TRANSCRIPT).read_bytes())
    assert by_default(copy, RunOptions()).models == "scripted", "of a user's own nothing is taken"


def test_the_header_names_the_run_whose_replies_are_repeated(
    task: Task, path: Path, tmp_path: Path
) -> None:
    first = read(path)
    for number, source in enumerate([path, tmp_path / "0" / "transcript.jsonl"]):
        request = chat_request(
            task, tmp_path / str(number), models=open_models(f"transcript:{source}", task)
        )
        judge = FixedJudge({VECTOR: timed(1.0, "tie")})
        head = read(run_request(request, judge=judge).transcript).header
        assert head.repeats is not None, "also of a run that repeats one that repeats it"
        assert head.repeats.run == first.records[0].run
        assert (head.repeats.models, head.repeats.answered_by) == ("scripted", "")
    assert first.header.repeats is None


def test_a_shipped_task_restored_from_a_transcript_finds_its_recorded_run(tmp_path: Path) -> None:
    shipped = find_task("silu_and_mul")
    restored = shipped.model_copy(update={"folder": tmp_path})
    assert by_default(restored, RunOptions()).models == "scripted", "the folder has none"
    repeats = open_models("transcript", restored).repeats
    assert repeats is not None and "Claude" in repeats.answered_by
