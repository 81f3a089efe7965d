"""A client with the recording running: any client, any answer, any failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from autogen_core.models import CreateResult, LLMMessage, RequestUsage, SystemMessage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from astra_chat.agents.turns import NextSpeaker, PlannerReply
from astra_chat.models.answer import Answer
from astra_chat.models.layer import Layer
from astra_chat.models.offline import MODEL_INFO, OfflineClient
from astra_chat.models.recording import Head, Mode, Recording
from astra_chat.models.recording_client import RecordingClient
from astra_vgpu.ground.errors import BadInput, MissingDependency
from tests.chat_samples import DEVICE

ASKED: list[LLMMessage] = [
    SystemMessage(content="be brief"),
    UserMessage(content="well?\nTurn: round 1, attempt 1.", source="user"),
]
ANSWER = Answer(
    finish_reason="length",
    content="{",
    thought="hm",
    refusal="no",
    cached=False,
    usage=RequestUsage(prompt_tokens=9, completion_tokens=3),
    cached_tokens=8,
    reasoning_tokens=2,
)


class Says(OfflineClient):
    """Answers, or fails, in this order."""

    def __init__(self, *answers: CreateResult | Exception) -> None:
        self.left = list(answers)

    async def create(self, messages: Sequence[LLMMessage], **_: object) -> CreateResult:
        found = self.left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def client_with(path: Path, mode: Mode, inner: OfflineClient, model: str = "m") -> RecordingClient:
    recording = Recording(path, mode)
    recording.begin(Head(models="x", roles={}, task="t", device=DEVICE, versions={}))
    return RecordingClient(inner, "coder", model, recording)


def ask(client: Layer, messages: list[LLMMessage] | None = None) -> CreateResult:
    return asyncio.run(client.create(messages or ASKED, json_output=PlannerReply))


def test_what_was_recorded_is_played_to_the_last_field(tmp_path: Path) -> None:
    second = ANSWER.model_copy(update={"content": "{}"})
    recording = client_with(tmp_path / "t", "record", Says(ANSWER, second))
    assert [ask(recording), ask(recording)] == [ANSWER, second]
    playing = client_with(tmp_path / "t", "replay", OfflineClient())
    assert [ask(playing), ask(playing)] == [ANSWER, second]


def test_clients_of_others_too(tmp_path: Path) -> None:
    other = ReplayChatCompletionClient(["hello there"], model_info=MODEL_INFO)
    recording = Recording(tmp_path / "t", "record")
    recording.begin(Head(models="x", roles={}, task="t", device=DEVICE, versions={}))
    said = ask(RecordingClient(other, "coder", "m", recording))
    assert said.content == "hello there"
    assert ask(client_with(tmp_path / "t", "replay", OfflineClient())) == said


@pytest.mark.parametrize("failure", [MissingDependency("no quota"), BadInput("no such model")])
def test_failures_are_played_too(tmp_path: Path, failure: Exception) -> None:
    with pytest.raises(type(failure)):
        ask(client_with(tmp_path / "t", "record", Says(failure)))
    with pytest.raises(type(failure), match=str(failure)):
        ask(client_with(tmp_path / "t", "replay", OfflineClient()))


def test_our_own_faults_are_not(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        ask(client_with(tmp_path / "t", "record", Says(KeyError("ours"))))
    assert (tmp_path / "t").read_text().count("\n") == 1


def test_another_prompt_model_or_schema_is_another_request(tmp_path: Path) -> None:
    ask(client_with(tmp_path / "t", "record", Says(ANSWER)))
    other = [*ASKED[:1], UserMessage(content="what?\nTurn: round 1, attempt 1.", source="user")]
    with pytest.raises(BadInput, match=r"message 2 \(UserMessage\) differs: - 'well\?'"):
        ask(client_with(tmp_path / "t", "replay", OfflineClient()), other)
    with pytest.raises(BadInput, match=r"'model' differs: - 'm'; \+ 'n'"):
        ask(client_with(tmp_path / "t", "replay", OfflineClient(), model="n"))
    with pytest.raises(BadInput, match="'reply' differs"):
        client = client_with(tmp_path / "t", "replay", OfflineClient())
        asyncio.run(client.create(ASKED, json_output=NextSpeaker))


def test_a_stream_is_on_the_tape_like_an_answer(tmp_path: Path) -> None:
    async def stream(client: Layer) -> list[object]:
        return [piece async for piece in client.create_stream(ASKED, json_output=PlannerReply)]

    assert asyncio.run(stream(client_with(tmp_path / "t", "record", Says(ANSWER)))) == [ANSWER]
    assert asyncio.run(stream(client_with(tmp_path / "t", "replay", OfflineClient()))) == [ANSWER]


NO_TOKENS = {"prompt_tokens": 0, "completion_tokens": 0}
TEXT = {"finish_reason": "stop", "content": "{}", "usage": NO_TOKENS, "cached": False}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"kind": "Answer"},
        {"kind": "subprocess.Popen", "result": {}},
        {"kind": "Answer", "result": {"content": 1}},
        {"failure": "SystemExit", "words": "x"},
        {"failure": "BadInput"},
        {"kind": "Answer", "result": {**TEXT, "usage": {**NO_TOKENS, "prompt_tokens": -(10**9)}}},
        {"kind": "Answer", "result": {**TEXT, "cached_tokens": 2**60}},
    ],
)
def test_an_answer_that_is_forged_is_refused_in_one_line(
    tmp_path: Path, answer: dict[str, object]
) -> None:
    """Negative tokens would make room in a budget."""
    path = tmp_path / "tape.jsonl"
    ask(client_with(path, "record", Says(ANSWER)))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[-1]["answer"] = answer
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(BadInput) as caught:
        ask(client_with(path, "replay", OfflineClient()))
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)
