"""A client that asks nobody: the base of scripted models, and what stands behind a recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autogen_core.models import (
    CreateResult,
    LLMMessage,
    ModelFamily,
    ModelInfo,
    RequestUsage,
    UserMessage,
)

from astra_chat.agents.prompt import read_stamp
from astra_chat.agents.turns import Position
from astra_chat.models.layer import Client, Tools

MODEL_INFO = ModelInfo(
    vision=False,
    function_calling=False,
    json_output=True,
    family=ModelFamily.UNKNOWN,
    structured_output=True,
)
NO_USAGE = RequestUsage(prompt_tokens=0, completion_tokens=0)


class OfflineClient(Client):
    """Costs nothing, counts nothing, and answers nothing unless a subclass does."""

    async def create(self, messages: Sequence[LLMMessage], **rest: Any) -> CreateResult:
        prompts = [str(m.content) for m in messages if isinstance(m, UserMessage)]
        content = self.answer(prompts)
        return CreateResult(finish_reason="stop", content=content, usage=NO_USAGE, cached=False)

    def answer(self, prompts: Sequence[str]) -> str:
        """The JSON that a role says to what the chat told it, the oldest prompt first."""
        raise RuntimeError("no model stands behind this recording")

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


def place_in(prompts: Sequence[str]) -> Position:
    """The place in the chat that the last prompt to name one names; ValueError if none does."""
    places = [place for prompt in prompts if (place := read_stamp(prompt)) is not None]
    if not places:
        raise ValueError("a prompt to an offline model names no place in the chat")
    return places[-1]
