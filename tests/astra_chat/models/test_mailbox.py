"""Runs that ask in a mailbox: they wait, stop and go on, and come to the end of a scripted run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from autogen_core import CancellationToken
from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage, UserMessage

from astra_chat.agents.position import position_line
from astra_chat.agents.turns import KernelReply, PlannerReply, Position
from astra_chat.mailbox.answers import give
from astra_chat.mailbox.checking import answer
from astra_chat.mailbox.questions import LOOK_S, questions
from astra_chat.models.answer import Answer
from astra_chat.models.mailbox import Asker, MailboxModels, WaitsForAnswer
from astra_chat.models.open_models import open_models
from astra_chat.session.resume import request_on, resumed
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.events import ChatMessage, Proposed, RejectedReply
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import read
from astra_chat.transcript.spending import ModelCall
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.mailbox_samples import go_on, open_question, run, scripted, states
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import FixedJudge

PLACE = position_line(Position(round=2, attempt=1))
ASKED: list[LLMMessage] = [
    SystemMessage(content="You are the coder."),
    UserMessage(content=f"Write ```a``` kernel.\n{PLACE}", source="user"),
]


def models(box: Path, *, wait: bool = True) -> MailboxModels:
    found = MailboxModels(f"mailbox:{box}", box)
    found.begin(Asker("run-1", "doubled", box / "transcript.jsonl", wait))
    return found


async def ask(asked: MailboxModels, messages: list[LLMMessage] = ASKED) -> Answer:
    found = await asked.client("coder").create(messages, json_output=KernelReply)
    assert isinstance(found, Answer)
    return found


def test_an_answer_that_is_there_is_used_at_once(tmp_path: Path) -> None:
    asked = models(tmp_path)
    question = asked.question("coder", ASKED, KernelReply)
    give(question, '{"reply": 1}', "Ada")
    found = asyncio.run(ask(asked))
    assert (found.content, found.answered_by, found.cached) == ('{"reply": 1}', "Ada", False)
    assert asyncio.run(ask(asked)).cached, "another session may ask it again"


def test_it_waits_until_somebody_answers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked = models(tmp_path)

    async def both() -> Answer:
        waiting = asyncio.ensure_future(ask(asked))
        await asyncio.sleep(2 * LOOK_S)
        question = open_question(tmp_path)
        assert not waiting.done() and str(question.folder) in caplog.text
        (question.folder / "reply.json").symlink_to("/etc/passwd")
        await asyncio.sleep(2 * LOOK_S)
        assert not waiting.done() and "reply.json cannot be read: a link" in caplog.text
        (question.folder / "reply.json").unlink()
        (question.folder / "reply.json").write_text('{"reply": 1}')
        return await waiting

    assert asyncio.run(both()).content == '{"reply": 1}'


def test_a_prompt_holds_all_that_a_model_is_sent(tmp_path: Path) -> None:
    repaired = [
        *ASKED,
        AssistantMessage(content="{}", source="coder"),
        UserMessage(content="Answer again.", source="user"),
    ]
    asked = models(tmp_path)
    first = asked.question("coder", ASKED, KernelReply)
    second = asked.question("coder", repaired, KernelReply)
    assert first.id != second.id and first.state == "closed"
    for text in ("You are the coder.", "```a```", "Your reply\n\n{}", "Answer again.", PLACE):
        assert text in second.prompt
    assert f"astra-chat mailbox answer {tmp_path} {second.id} FILE" in second.prompt
    assert "kernel.cu and then words.md" in second.prompt
    assert "reply" in second.schema["properties"] and second.meta.kernel
    planned = asked.question("planner", ASKED, PlannerReply)
    assert "kernel.cu" not in planned.prompt and not planned.meta.kernel


@pytest.mark.parametrize("how", ["no_wait", "stopped", "cancelled"])
def test_it_need_not_wait(tmp_path: Path, how: str) -> None:
    asked = models(tmp_path, wait=how != "no_wait")
    token = CancellationToken()

    async def stop() -> None:
        client = asked.client("coder")
        waiting = asyncio.ensure_future(
            client.create(ASKED, json_output=KernelReply, cancellation_token=token)
        )
        await asyncio.sleep(LOOK_S)
        if how == "stopped":
            assert asked.stop_waiting()
        if how == "cancelled":
            token.cancel()
        await waiting

    wanted = asyncio.CancelledError if how == "cancelled" else WaitsForAnswer
    with pytest.raises(wanted):
        asyncio.run(stop())
    assert not asked.stop_waiting(), "nobody waits now"


@pytest.mark.second_tier
def test_stop_and_go_come_to_the_end_of_the_script(task: Task, tmp_path: Path) -> None:
    box, result = tmp_path / "box", run(task, tmp_path / "box", tmp_path / "out")
    while result.summary.ended is not None and result.summary.ended.reason == "waiting":
        question = open_question(box)
        assert result.question == question.folder and result.summary.ended.question == question.id
        assert f"--models mailbox:{box}" in result.resume_with
        answer(question, scripted(task, question), answered_by="the script")
        result = go_on(task, result.transcript, box)
    whole = chat_request(task, tmp_path / "whole")
    path = run_request(whole, judge=FixedJudge()).transcript
    assert said(result.transcript) == said(path)
    calls = [r.event for r in read(result.transcript).records if isinstance(r.event, ModelCall)]
    assert len(calls) == len(states(box)) and {one.answered_by for one in calls} == {"the script"}
    assert {one.model for one in calls} == {"mailbox"} and set(states(box)) == {"closed"}


def said(path: Path) -> list[ChatMessage | Proposed]:
    """What roles and user said; the user's request names the models."""
    events = [record.event for record in read(path).records]
    return [event for event in events if isinstance(event, ChatMessage | Proposed)]


def test_an_answer_by_hand_that_cannot_be_used_is_sent_back(task: Task, tmp_path: Path) -> None:
    box, result = tmp_path / "box", run(task, tmp_path / "box", tmp_path / "out")
    (open_question(box).folder / "reply.json").write_text('{"reply": {"kind": "plan"}}')
    result = go_on(task, result.transcript, box)
    rejected = [
        r.event for r in read(result.transcript).records if isinstance(r.event, RejectedReply)
    ]
    assert len(rejected) == 1 and "kind should be 'tests' or 'pass'" in rejected[0].reason
    question = open_question(box)
    assert "could not be used" in question.prompt and len(questions(box)) == 2
    result = go_on(task, result.transcript, box)
    assert open_question(box).id == question.id, "asked again it is the same question"
    assert result.summary.spent.roles[0].answers == 1, "and its answer before is counted once"


def test_a_recorded_mailbox_is_a_path_that_only_the_user_names(task: Task, tmp_path: Path) -> None:
    result = run(task, tmp_path / "box", tmp_path / "out")
    with pytest.raises(BadInput, match="only you may set") as caught:
        request_on(resumed(result.transcript), task)
    assert any("mailbox:" in note for note in caught.value.__notes__)
    given = RunOptions.given(models=f"mailbox:{tmp_path / 'box'}")
    assert request_on(resumed(result.transcript), task, given).options.models == given.models


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mailbox", "takes one folder"),
        ("mailbox:", "takes one folder"),
        ("mailbox:{box},temperature=1", "takes no options"),
        ("mailbox:{box}/file", "choose a writable folder"),
        ("mailbox:a\0b", "mailbox"),
    ],
)
def test_a_mailbox_is_a_folder(task: Task, tmp_path: Path, spec: str, message: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=message):
        open_models(spec.format(box=tmp_path), task)


def test_single_roles_may_have_a_mailbox(task: Task, tmp_path: Path) -> None:
    mixed = open_models(f"scripted,planner=mailbox:{tmp_path}", task)
    assert (mixed.described("planner"), mixed.described("coder")) == ("mailbox", "scripted")
    assert mixed.price("planner") is None
    assert not mixed.stop_waiting()
    json.dumps(mixed.name)
