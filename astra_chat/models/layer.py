"""A client round another: a layer changes `create` and leaves everything else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, TypeAlias

from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    LLMMessage,
    ModelInfo,
    RequestUsage,
)
from autogen_core.tools import Tool, ToolSchema
from pydantic import BaseModel

from astra_chat.models.answer import require_usable

Tools: TypeAlias = Sequence[Tool | ToolSchema]
ToolChoice: TypeAlias = Tool | Literal["auto", "required", "none"]
JsonOutput: TypeAlias = bool | type[BaseModel] | None


class Client(ChatCompletionClient):
    """Answers in one piece: half a JSON object is useless. Other arguments of AutoGen
    (tools, json_output, extra_create_args, cancellation_token ...) are passed on unchanged."""

    component_type = "model"
    component_config_schema = BaseModel

    async def create_stream(
        self, messages: Sequence[LLMMessage], **rest: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        yield await self.create(messages, **rest)


class Layer(Client):
    """Passes everything on to `inner`."""

    def __init__(self, inner: ChatCompletionClient) -> None:
        self._inner = inner

    async def create(self, messages: Sequence[LLMMessage], **rest: Any) -> CreateResult:
        return await self._inner.create(messages, **rest)

    async def close(self) -> None:
        await self._inner.close()

    def actual_usage(self) -> RequestUsage:
        return self._inner.actual_usage()

    def total_usage(self) -> RequestUsage:
        return self._inner.total_usage()

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        return self._inner.count_tokens(messages, tools=tools)

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        return self._inner.remaining_tokens(messages, tools=tools)

    @property
    def capabilities(self) -> ModelInfo:
        return self._inner.model_info

    @property
    def model_info(self) -> ModelInfo:
        return self._inner.model_info


class Readable(Layer):
    """The outermost layer: raises UnusableReply for answers of which nothing can be read."""

    async def create(self, messages: Sequence[LLMMessage], **rest: Any) -> CreateResult:
        result = await super().create(messages, **rest)
        require_usable(result)
        return result
