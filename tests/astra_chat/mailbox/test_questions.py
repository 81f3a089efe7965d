"""Questions are folders: whole or not there, listed oldest first, never mixed up."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.mailbox.answers import give, take
from astra_chat.mailbox.questions import (
    CLOSED,
    Question,
    ask,
    find,
    open_mailbox,
    questions,
    waiting,
)
from astra_vgpu.ground.errors import BadInput, MissingDependency
from tests.astra_chat.mailbox_samples import meta
from tests.full_disk import full_disk


def asked(box: Path, name: str = "run-1-coder-r1a1-0", **changes: object) -> Question:
    return ask(box, meta(name, **changes), "Write a kernel.\n", {"type": "object"})


def test_a_question_is_a_folder(tmp_path: Path) -> None:
    question = asked(tmp_path)
    assert sorted(path.name for path in question.folder.iterdir()) == [
        "meta.json",
        "prompt.md",
        "schema.json",
    ]
    found = find(tmp_path, question.id)
    assert (found.prompt, found.schema) == ("Write a kernel.\n", {"type": "object"})
    assert found.state == "open" and found.meta == question.meta


def test_asked_again_it_stays_as_it_is(tmp_path: Path) -> None:
    question = asked(tmp_path)
    give(question, "{}")
    again = asked(tmp_path, asked="2030-01-01T00:00:00.000000+00:00")
    assert again.meta == question.meta and again.state == "answered"


def test_another_question_of_the_same_run_closes_the_first(tmp_path: Path) -> None:
    first = asked(tmp_path)
    other_run = asked(tmp_path, "run-2-coder-r1a1-0", run="run-2")
    second = asked(tmp_path, "run-1-coder-r1a1-1", asked="2026-01-02")
    assert [first.state, other_run.state, second.state] == ["closed", "open", "open"]
    assert second.id in (first.folder / CLOSED).read_text()


def test_a_question_that_is_asked_again_is_open_again(tmp_path: Path) -> None:
    first, second = asked(tmp_path), asked(tmp_path, "run-1-coder-r1a1-1")
    assert asked(tmp_path).state == "open" and second.state == "closed"
    give(first, "{}")
    assert take(first) is not None
    second = asked(tmp_path, "run-1-coder-r1a1-1")
    assert asked(tmp_path).state == "closed", "its answer is known"
    assert second.state == "open", "so it takes nobody's place"


def test_several_runs_share_a_mailbox(tmp_path: Path) -> None:
    late = asked(tmp_path, "run-1-coder-r1a1-0", asked="2026-01-02")
    early = asked(tmp_path, "run-2-tester-r0a1-0", run="run-2", role="tester", asked="2026-01-01")
    assert [one.id for one in questions(tmp_path)] == [early.id, late.id]
    assert [one.id for one in waiting(tmp_path, run="run-1")] == [late.id]
    assert [one.id for one in waiting(tmp_path, role="tester")] == [early.id]
    give(early, "{}")
    give(late, "{}")
    assert list(waiting(tmp_path)) == []


def test_what_is_no_question_is_left_alone(tmp_path: Path) -> None:
    question = asked(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "meta.json").write_text('{"schema": "astra-chat/question/1"')
    (tmp_path / ".part-abc").mkdir()
    (tmp_path / "renamed").mkdir()
    (tmp_path / "renamed" / "meta.json").write_text((question.folder / "meta.json").read_text())
    (tmp_path / "linked").symlink_to(question.folder)
    assert [one.id for one in questions(tmp_path)] == [question.id]


@pytest.mark.parametrize("name", ["../box/x", "/etc", "", ".", "a" * 300, "no\nwhere", "nothing"])
def test_an_id_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    asked(tmp_path)
    with pytest.raises(BadInput, match="has no question") as caught:
        find(tmp_path, name)
    assert len(str(caught.value).splitlines()) == 1


def test_no_mailbox_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"a run creates it with --models mailbox:"):
        questions(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="choose a writable folder"):
        open_mailbox(tmp_path / "file")
    assert open_mailbox(tmp_path / "new" / "box").is_dir()


def test_what_is_gone_is_said(tmp_path: Path) -> None:
    question = asked(tmp_path)
    (question.folder / "prompt.md").unlink()
    (question.folder / "schema.json").write_text("{")
    with pytest.raises(BadInput, match=r"prompt.md is missing"):
        _ = question.prompt
    with pytest.raises(BadInput, match=r"schema.json is not JSON"):
        _ = question.schema


def test_a_full_disk_is_one_line_and_no_half_question(tmp_path: Path) -> None:
    with full_disk(1000), pytest.raises(MissingDependency, match="cannot write"):
        ask(tmp_path, meta("run-1-coder-r1a1-0"), "x" * 10_000, {})
    assert not list(tmp_path.iterdir())
