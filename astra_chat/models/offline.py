"""A client that asks nobody: the base of scripted models, and what stands behind a recording."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from autogen_core import CancellationToken
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    LLMMessage,
    ModelFamily,
    ModelInfo,
    RequestUsage,
)
from pydantic import BaseModel

from astra_chat.models.layer import JsonOutput, ToolChoice, Tools

MODEL_INFO = ModelInfo(
    vision=False,
    function_calling=False,
    json_output=True,
    family=ModelFamily.UNKNOWN,
    structured_output=True,
)
NO_USAGE = RequestUsage(prompt_tokens=0, completion_tokens=0)


class OfflineClient(ChatCompletionClient):
    """Costs nothing, counts nothing, and answers nothing unless a subclass does."""

    component_type = "model"
    component_config_schema = BaseModel

    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Tools = (),
        tool_choice: ToolChoice = "auto",
        json_output: JsonOutput = None,
        extra_create_args: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> CreateResult:
        raise RuntimeError("no model stands behind this recording")

    async def create_stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Tools = (),
        tool_choice: ToolChoice = "auto",
        json_output: JsonOutput = None,
        extra_create_args: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> AsyncGenerator[str | CreateResult, None]:
        """The whole answer as one piece."""
        yield await self.create(messages)

    async def close(self) -> None:
        """Nothing is open."""

    def actual_usage(self) -> RequestUsage:
        return NO_USAGE

    def total_usage(self) -> RequestUsage:
        return NO_USAGE

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        """No tokens: nothing is read by a model."""
        return 0

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        """There is no context window; AutoGen wants an integer."""
        return 2**31 - 1

    @property
    def capabilities(self) -> ModelInfo:
        return MODEL_INFO

    @property
    def model_info(self) -> ModelInfo:
        return MODEL_INFO
