"""Layers pass on what they do not change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from autogen_core.models import CreateResult, LLMMessage, RequestUsage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from astra_chat.agents.reply_errors import UnusableReply
from astra_chat.agents.turns import NextSpeaker
from astra_chat.models.layer import Layer, Readable
from astra_chat.models.offline import MODEL_INFO, NO_USAGE, OfflineClient

ASKED: list[LLMMessage] = [UserMessage(content="two words", source="user")]


class Listening(OfflineClient):
    """Keeps how it was asked."""

    closed = False

    async def create(self, messages: Sequence[LLMMessage], **rest: Any) -> CreateResult:
        self.rest: Mapping[str, Any] = rest
        return CreateResult(finish_reason="stop", content="{}", usage=NO_USAGE, cached=False)

    async def close(self) -> None:
        self.closed = True


def test_everything_goes_through() -> None:
    inner = Listening()
    layer = Layer(Layer(inner))
    given = {"json_output": NextSpeaker, "extra_create_args": {"seed": 1}, "tool_choice": "none"}
    asyncio.run(layer.create(ASKED, **given))  # type: ignore[arg-type]
    assert {name: inner.rest[name] for name in given} == given
    asyncio.run(layer.close())
    assert inner.closed and layer.model_info == layer.capabilities == MODEL_INFO
    assert layer.count_tokens(ASKED) == 0 and layer.remaining_tokens(ASKED) > 10**6


def test_usage_is_the_inner_clients() -> None:
    inner = ReplayChatCompletionClient(["a b c"], model_info=MODEL_INFO)
    layer = Layer(inner)
    asyncio.run(layer.create(ASKED))
    assert layer.total_usage() == inner.total_usage() != RequestUsage(0, 0)
    assert layer.actual_usage() == inner.actual_usage()


def test_the_outermost_layer_reads_every_answer() -> None:
    layer = Readable(ReplayChatCompletionClient(["fine", "``` no", "  "], model_info=MODEL_INFO))
    assert asyncio.run(layer.create(ASKED)).content == "fine"
    for _ in range(2):
        with pytest.raises(UnusableReply):
            asyncio.run(layer.create(ASKED))


def test_streams_are_read_too() -> None:
    layer = Readable(ReplayChatCompletionClient(["```"], model_info=MODEL_INFO))

    async def stream() -> list[object]:
        return [piece async for piece in layer.create_stream(ASKED)]

    with pytest.raises(UnusableReply, match="fence"):
        asyncio.run(stream())
