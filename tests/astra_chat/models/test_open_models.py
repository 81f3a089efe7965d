"""What --models opens."""

from __future__ import annotations

import asyncio

import pytest
from autogen_core.models import UserMessage

from astra_chat.agents.reply_errors import UnusableReply
from astra_chat.agents.turns import Kernel, Position
from astra_chat.models.open_models import open_models
from astra_chat.tools.task.folder import Task
from astra_vgpu.ground.errors import BadInput, MissingDependency
from tests.astra_chat.fake_openai import in_order, said, serving
from tests.chat_samples import KERNELS


@pytest.mark.parametrize("spec", ["", "script", "gpt-5", "scripted,coder=gpt-5"])
def test_unknown_models_are_refused_with_what_there_is(task: Task, spec: str) -> None:
    unknown = spec.removeprefix("scripted,coder=")
    with pytest.raises(
        BadInput, match=f"no backend '{unknown}': (backends are|did you mean) scripted.*=URL"
    ):
        open_models(spec, task)


@pytest.mark.parametrize(
    ("spec", "words"), [("scripted:other", "takes no argument"), ("scripted,seed=1", "no options")]
)
def test_scripted_takes_nothing_else(task: Task, spec: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        open_models(spec, task)


def test_a_missing_key_is_said_before_anything_is_spent(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(MissingDependency, match="set OPENAI_API_KEY"):
        open_models("openai:o4-mini", task)


def test_kinds_mix(task: Task) -> None:
    with serving(in_order(said("hello"))) as server:
        models = open_models("scripted,coder=openai:gpt-5,coder.seed=3", task, server.url)
        assert models.described("coder") == "openai:gpt-5,seed=3"
        assert models.described("planner") == "scripted"
        assert models.name.endswith(f",base_url={server.url}")

        async def ask() -> object:
            asked = [UserMessage(content="Turn: round 1, attempt 1.", source="user")]
            live = await models.client("coder").create(asked)
            scripted = await models.client("planner").create(asked)
            await models.close()
            return live.content, scripted.content

        live, scripted = asyncio.run(ask())  # type: ignore[misc]
    assert live == "hello" and "Leave the scalar loop" in scripted
    foretold = models.expected(
        Kernel(words="", source=KERNELS["broken.cu"]), Position(round=1, attempt=0)
    )
    assert foretold == "build_failed"


def test_only_readable_answers_come_through(task: Task) -> None:
    with serving(in_order(said("", refusal="no"))) as server:
        models = open_models("openai:m", task, server.url)

        async def ask() -> None:
            try:
                await models.client("coder").create([UserMessage(content="?", source="user")])
            finally:
                await models.close()

        with pytest.raises(UnusableReply, match="refusal"):
            asyncio.run(ask())
