"""A run's transcript while it is written, and where its beginning comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.agents.turns import Kernel, Turn
from astra_chat.models.open_models import open_models
from astra_chat.session.recorder import begin
from astra_chat.session.request import Request
from astra_chat.session.resume import branched, resumed
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import sha256_of
from astra_chat.transcript.events import Blob, Deviation, Header, Record, Resumed
from astra_chat.transcript.reader import read
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import VECTOR, baseline_turns


@pytest.fixture
def request_here(task: Task, tmp_path: Path) -> Request:
    models = open_models("scripted", task)
    return chat_request(task, tmp_path / "out", models=models)


def written(request: Request) -> Path:
    """A run of three turns, then killed."""
    journal = begin(request, None, lambda _: None)
    for turn in baseline_turns():
        journal.take(turn)
    journal.close()
    return journal.path


def test_a_new_run_begins_with_its_head_and_the_tasks_files(request_here: Request) -> None:
    shown: list[Record] = []
    journal = begin(request_here, None, shown.append)
    assert isinstance(shown[0].event, Header) and shown == journal.records
    texts = [r.event.text for r in shown[1:] if isinstance(r.event, Blob)]
    assert sorted(texts) == sorted(set(request_here.task.files().values()))
    assert journal.state.last is None and journal.folder == request_here.folder


def test_a_turn_and_what_is_said_about_it(request_here: Request) -> None:
    journal = begin(request_here, None, lambda _: None)
    said = Turn("coder", Kernel(words="", source="// new\n"))
    journal.take(said, Deviation(candidate="c", expected="tie", found="slower"))
    kinds = [record.event.kind for record in journal.records[-3:]]
    assert kinds == ["blob", "proposed", "deviation"] and journal.state.last == said
    journal.take(Turn("fixer", Kernel(words="", source="// new\n")))
    blobs = [r.event.sha256 for r in journal.records if isinstance(r.event, Blob)]
    assert blobs.count(sha256_of("// new\n")) == 1, "a text is stored once"
    assert list(read(journal.path).records) == journal.records


def test_a_resumed_run_shows_and_knows_what_was(request_here: Request) -> None:
    path = written(request_here)
    before, shown = list(read(path).records), []
    journal = begin(request_here, resumed(path), shown.append)
    assert journal.state.last == baseline_turns()[-1] and shown == journal.records
    assert shown[:-1] == before and isinstance(shown[-1].event, Resumed)
    assert shown[-1].run == before[0].run and shown[-1].t >= before[-1].t
    journal.take(Turn("coder", Kernel(words="", source=VECTOR)))
    assert journal.records[-1].turn == 4
    stored = [r.event.sha256 for r in journal.records if isinstance(r.event, Blob)]
    assert len(stored) == len(set(stored)), "the script's kernel was stored with the task"
    journal.close()
    assert list(read(path).records) == journal.records


def test_a_branch_stores_the_task_once(request_here: Request, tmp_path: Path) -> None:
    path = written(request_here)
    there = chat_request(request_here.task, tmp_path / "b", models=request_here.models)
    journal = begin(there, branched(path, None), lambda _: None)
    journal.close()
    found = read(journal.path)
    assert journal.state.last == baseline_turns()[-1] and found.header.origin is not None
    assert len(found.records) == len(read(path).records)


@pytest.mark.parametrize("name", ["best.cu", "best"])
def test_nothing_is_overwritten(request_here: Request, name: str) -> None:
    assert request_here.folder is not None
    request_here.folder.mkdir()
    (request_here.folder / name).write_text("precious")
    with pytest.raises(BadInput, match="not overwritten"):
        begin(request_here, None, lambda _: None)
    assert [p.name for p in request_here.folder.iterdir()] == [name]
